import torch
from torchvision.ops import box_iou

from lvmdc.vision.proposals import distinct


def test_kept_boxes_come_in_order_and_overlap_little_and_the_others_overlap_an_earlier_one():
    corner = torch.rand(200, 2, generator=torch.Generator().manual_seed(0)) * 10
    boxes = torch.cat([corner, corner + 2 + corner.flip(0) / 5], dim=1)
    kept = distinct(boxes, 0.4, 500)
    assert kept.tolist() == sorted(kept.tolist())
    among = box_iou(boxes[kept], boxes[kept]).fill_diagonal_(0)
    assert among.max() <= 0.4
    for i in set(range(200)) - set(kept.tolist()):
        assert box_iou(boxes[i : i + 1], boxes[kept[kept < i]]).max() > 0.4
    assert distinct(boxes, 0.4, 7).tolist() == kept[:7].tolist()
    assert len(distinct(torch.zeros(0, 4), 0.4, 7)) == 0
