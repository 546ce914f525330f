"""What the numbers are and are not, in sentences under every table."""

from __future__ import annotations

from lvmdc.reproduction.protocol import Protocol


def notes(protocol: Protocol) -> list[str]:
    """How the numbers of a protocol came about.

    >>> notes(Protocol([], {}, folds=2))[0].partition(":")[0]
    'Test loss in percent, mean ± standard deviation over 2 folds'
    """
    train, test = round(100 * protocol.fraction), round(100 * (1 - protocol.fraction))
    told = [
        f"Test loss in percent, mean ± standard deviation over {protocol.folds} folds: independent divisions by class,"
        f" {train} % for training, {test} % for the test, near duplicates, where they are known, on one side.",
        "Best on test: the point of the grid with the lowest mean test loss, as in the paper. The test parts both pick and measure, so"
        " these numbers are optimistic, for every method.",
    ]
    if protocol.inner_folds:
        told.append(
            "Chosen on validation: for each fold, the point with the lowest mean loss over"
            f" {protocol.inner_folds} division{'s' * (protocol.inner_folds > 1)} of its training part alone"
            f" ({round(100 * protocol.inner_fraction)} % of every class learn, the rest validates); reported is what was then learned from"
            " the whole training part."
        )
    told += [
        "The true h is the candidate of best overlap with the annotated box: a loss of 0 can be reached, and the overlap loss is measured"
        " against that candidate's box. The last column measures the same predictions against the annotated box itself, where candidates"
        " that miss it cost every method alike.",
        "CorLoc: the share of test pictures whose predicted box overlaps the annotated one by at least half, whatever its class.",
        f"p: two-sided paired t-test over n = {protocol.folds} folds, the paper's test. The folds share samples, so it is optimistic;"
        " p corrected widens the variance for that (Nadeau and Bengio, 2003).",
    ]
    if protocol.path:
        told.append("Each training starts where that of the next smaller C ended, the first one anew.")
    starts = _starts(protocol)
    return [*told, starts] if starts else told


def _starts(protocol: Protocol) -> str:
    kept = {(str(m.settings.get("init", "random")), int(m.settings.get("n_init") or 1)) for m in protocol.methods}
    if len(kept) != 1 or any("init" in m.grid or "n_init" in m.grid for m in protocol.methods):
        return ""
    init, count = kept.pop()
    if init != "random":
        return f"Every method starts from h by init = {init}."
    several = f"the lowest training objective of {count} random starts is kept" if count > 1 else "one random start"
    return f"Starts: {several}, the same for every method."
