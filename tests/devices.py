"""`pytest --device standin`: what test code makes is on a device, what the package makes is where the package puts it.

So nearly every test checks, without a word of its own, that the package computes where its data are: a tensor that it makes without
`device=` stays on the CPU, and meets those of the test in an error.
"""

import functools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

LIBRARIES = str(Path(torch.__file__).parent), str(Path(np.__file__).parent)
TESTS = str(Path(__file__).parent)
HELPERS = str(Path(__file__).parents[1] / "lvmdc" / "testing.py")  # part of the package, and test code


def in_test_code(frame: Any) -> bool:
    """Whether test code, not the package, called torch, or numpy, which read a tensor."""
    while frame is not None and frame.f_code.co_filename.startswith(LIBRARIES):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith((TESTS, HELPERS))


class TestsOn(TorchFunctionMode):
    """Test code makes its tensors on a device and reads them from there."""

    def __init__(self, device: torch.device):
        super().__init__()
        self.device, self.makers = device, _device_constructors()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        makes = func in self.makers and kwargs.get("device") is None
        reads = func in (torch.Tensor.numpy, torch.Tensor.__array__)
        if not (makes or reads) or not in_test_code(sys._getframe(1)):
            return func(*args, **kwargs)
        if reads:
            return func(args[0].cpu(), *args[1:], **kwargs)
        # Made on the CPU and moved, so that random numbers are the same on every device.
        learns = kwargs.pop("requires_grad", False)
        return func(*args, **kwargs | {"device": "cpu"}).to(self.device).requires_grad_(learns)


def train_on(device: torch.device) -> None:
    """Trainers that ask for the CPU, or for nothing, train on the device."""
    import pytorch_lightning as pl
    from pytorch_lightning.accelerators import Accelerator
    from pytorch_lightning.strategies import SingleDeviceStrategy

    class TestedAccelerator(Accelerator):
        """One device of any type that torch knows."""

        def setup_device(self, device: torch.device) -> None: ...

        def teardown(self) -> None: ...

        @staticmethod
        def parse_devices(devices: Any) -> Any:
            return devices

        @staticmethod
        def get_parallel_devices(devices: Any) -> list[torch.device]:
            return [device]

        @staticmethod
        def auto_device_count() -> int:
            return 1

        @staticmethod
        def is_available() -> bool:
            return True

        @staticmethod
        def name() -> str:
            return device.type

    plain = pl.Trainer.__init__

    @functools.wraps(plain)
    def on_device(self: pl.Trainer, *args: Any, **settings: Any) -> None:
        if settings.get("accelerator", "auto") in ("auto", "cpu") and settings.get("strategy", "auto") == "auto":
            settings["strategy"] = SingleDeviceStrategy(device, TestedAccelerator())
            settings["accelerator"] = "auto"
        if device.type == "standin":
            settings["inference_mode"] = False  # in which a tensor around another cannot be divided
        plain(self, *args, **settings)

    pl.Trainer.__init__ = on_device  # type: ignore[method-assign]
