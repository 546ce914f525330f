"""What a run looks like: drawings of boxes and posteriors, tables, curves, the HTML report, predictions on disk."""

from lvmdc.reporting.drawing import contact_sheet, draw_detection, draw_legend, draw_scene, with_caption
from lvmdc.reporting.figures import line_chart
from lvmdc.reporting.predictions import Detection, Prediction, save_predictions
from lvmdc.reporting.report import write_report
from lvmdc.reporting.table import Table, results_table

__all__ = [
    "Detection",
    "Prediction",
    "Table",
    "contact_sheet",
    "draw_detection",
    "draw_legend",
    "draw_scene",
    "line_chart",
    "results_table",
    "save_predictions",
    "with_caption",
    "write_report",
]
