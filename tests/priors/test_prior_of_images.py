import pytest
import torch

from lvmdc import Candidates
from lvmdc.lightning import LatentDataModule
from lvmdc.priors import CentredBoxPrior, CentrePrior, ObjectnessPrior, Prior
from lvmdc.storage import arrays as storage
from lvmdc.storage.mapped import is_mapped
from lvmdc.vision.datasets import cluttered_digits
from lvmdc.vision.features import HOG, build_candidates
from lvmdc.vision.features.cache import cache_key
from lvmdc.vision.features.with_prior import with_prior
from lvmdc.vision.proposals import WindowGrid

IMAGES = cluttered_digits(per_class=12)  # 72: more than one image in a piece of the cache


class Infinite(Prior):
    def log_weights(self, image, boxes):
        return torch.full((len(boxes),), -torch.inf)

    def settings(self):
        return {}


def test_candidates_have_the_log_weights_of_their_boxes_from_the_cache_too(tmp_path):
    prior, part = ObjectnessPrior(), IMAGES.subset(torch.arange(3))
    whole = build_candidates(IMAGES, WindowGrid(), HOG(), tmp_path, progress=False, prior=prior)
    again = build_candidates(IMAGES, WindowGrid(), HOG(), tmp_path, progress=False, prior=prior)
    torch.testing.assert_close(whole.prior, again.prior)
    some = build_candidates(part, WindowGrid(), HOG(), progress=False, prior=prior)
    for i in range(3):
        expected = prior(IMAGES.image(i), WindowGrid().boxes(IMAGES.image(i), ""))
        torch.testing.assert_close(whole.subset([i]).prior.float(), expected)
        torch.testing.assert_close(some.subset([i]).prior.float(), expected)
    assert build_candidates(IMAGES, WindowGrid(), HOG(), tmp_path, progress=False).prior is None


def test_the_cache_key_depends_on_the_prior_and_its_strength():
    priors = (None, ObjectnessPrior(), ObjectnessPrior(1.0), CentrePrior(), CentrePrior(spread=0.3))
    assert len({cache_key(IMAGES, WindowGrid(), HOG(), prior) for prior in priors}) == len(priors)
    assert cache_key(IMAGES, WindowGrid(), HOG(), None) == cache_key(IMAGES, WindowGrid(), HOG())


def test_infinite_weights_are_refused_with_the_image():
    with pytest.raises(ValueError, match=r"digit 0 number 0: .*finite log weights"):
        build_candidates(IMAGES, WindowGrid(), HOG(), progress=False, prior=Infinite())


def test_the_data_module_gives_every_part_its_log_weights():
    data = LatentDataModule(IMAGES, WindowGrid(), HOG(), progress=False, prior=CentrePrior())
    data.setup()
    for part in (data.train, data.test):
        assert part.candidates.prior.shape == (part.candidates.n_candidates,)


def test_candidates_on_disk_stay_there_when_a_prior_adds_boxes_and_columns(tmp_path, monkeypatch):
    images = IMAGES.subset(torch.arange(6))
    memory = build_candidates(images, WindowGrid(), HOG(), progress=False)
    memory.save(tmp_path / "c.npz")
    expected = with_prior(images, memory, HOG(), CentredBoxPrior(), columns=1.0, progress=False)
    monkeypatch.setattr(storage, "MAP_ABOVE", 1)
    found = with_prior(images, Candidates.load(tmp_path / "c.npz"), HOG(), CentredBoxPrior(), columns=1.0, progress=False)
    assert is_mapped(found.features)
    assert not is_mapped(expected.features)
    for name in ("features", "counts", "boxes", "prior"):
        assert torch.equal(getattr(found, name), getattr(expected, name))
