"""Conformance suites for losses and conditional distributions, custom ones included.

A subclass says how its object is made and inherits the tests, which pytest finds by their names:

>>> from lvmdc.losses import OverlapLoss
>>> class TestOverlapLoss(LossConformance):
...     def make_loss(self):
...         return OverlapLoss()

They compare with the definitions, term by term, on small random problems in float64. Nothing here needs pytest: a suite also runs alone.

>>> run(TestOverlapLoss())
12
"""

import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import functional_call

from lvmdc.candidates import Candidates
from lvmdc.distributions import ConditionalModel
from lvmdc.losses import ExpectedLoss, Loss
from lvmdc.segments import segment_sum

TINY, AMPLE = 1, 1 << 30  # budgets: one block per row of Δ, recomputed on every use; all of Δ kept
CLOSE = 1e-5  # relative and absolute: losses may compute Δ in float32


def random_candidates(counts: list[int], seed: int = 0, n_features: int = 3, dtype: torch.dtype = torch.float64) -> Candidates:
    """Candidates with random features, and boxes of which many overlap.

    >>> random_candidates([2, 1])
    Candidates(2 samples, 3 candidates of 3 features, boxes, torch.float64, cpu)
    """
    generator = torch.Generator().manual_seed(seed)
    total = sum(counts)
    corner = 10 * torch.rand(total, 2, generator=generator, dtype=torch.float64)
    size = 1 + 10 * torch.rand(total, 2, generator=generator, dtype=torch.float64)
    features = torch.randn(total, n_features, generator=generator, dtype=torch.float64)
    return Candidates(features.to(dtype), counts, torch.cat([corner, corner + size], dim=1))


def random_weights(candidates: Candidates, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """(T,) random probabilities over the candidates of each sample.

    >>> random_weights(random_candidates([1]))
    tensor([1.], dtype=torch.float64)
    """
    p = torch.rand(candidates.n_candidates, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (p / segment_sum(p, candidates.counts)[candidates.sample]).to(dtype)


def run(suite: object) -> int:
    """Run the tests of a suite one after the other; return their number."""
    names = [name for name in dir(suite) if name.startswith("test_")]
    for name in names:
        getattr(suite, name)()
    return len(names)


class LossConformance:
    """Properties of every loss Δ: `Loss.delta` is valid, and all that follows from it agrees with its definition."""

    n_classes = 3

    def make_loss(self) -> Loss:
        """The loss under test."""
        raise NotImplementedError("a subclass of LossConformance must say how its loss is made")

    def make_candidates(self) -> Candidates:
        """Samples with very different numbers of candidates, one and equal numbers among them."""
        return random_candidates([3, 1, 6, 3, 2])

    def make_outputs(self, candidates: Candidates) -> Tensor:
        """(n,) classes, all of which occur if there are enough samples."""
        return torch.arange(len(candidates)) % self.n_classes

    # ---- the definitions, one term at a time ---------------------------------------------------------------------

    def _setting(self) -> tuple[Loss, Candidates, Tensor, Tensor]:
        candidates = self.make_candidates()
        return self.make_loss(), candidates, self.make_outputs(candidates), random_weights(candidates)

    def _joint(self, candidates: Candidates) -> Tensor:
        """(T, K) random probabilities over all (y, h) of each sample."""
        q = torch.stack([random_weights(candidates, seed) for seed in range(self.n_classes)], dim=1)
        return q / self.n_classes

    def _delta(self, loss: Loss, candidates: Candidates, y1: int, row1: int, y2: int, row2: int) -> float:
        h1, h2 = candidates.latent(torch.tensor([row1])), candidates.latent(torch.tensor([row2]))
        return float(loss.delta(torch.tensor([y1]), h1, torch.tensor([y2]), h2))

    def _expected_loss(self, loss: Loss, candidates: Candidates, y: Tensor, p: Tensor) -> Tensor:
        """(7): Σ_h' p(h') Δ(y_i, h', k, h)."""
        table = torch.zeros(candidates.n_candidates, self.n_classes, dtype=torch.float64)
        for truth, predicted in _pairs(candidates):
            label = int(y[candidates.sample[truth]])
            for k in range(self.n_classes):
                table[predicted, k] += float(p[truth]) * self._delta(loss, candidates, label, truth, k, predicted)
        return table

    # ---- Δ itself ------------------------------------------------------------------------------------------------

    def test_loss_is_finite_and_not_negative(self) -> None:
        loss, candidates, _, _ = self._setting()
        for one, two in _pairs(candidates):
            for y1 in range(self.n_classes):
                values = [self._delta(loss, candidates, y1, one, y2, two) for y2 in range(self.n_classes)]
                assert all(0 <= v < torch.inf for v in values), f"Δ(({y1}, row {one}), (·, row {two})) is {values}"

    def test_loss_of_the_truth_itself_is_zero(self) -> None:
        loss, candidates, _, _ = self._setting()
        for row in range(candidates.n_candidates):
            for k in range(self.n_classes):
                value = self._delta(loss, candidates, k, row, k, row)
                assert abs(value) <= CLOSE, f"Δ(z, z) is {value} for class {k}, row {row}"

    def test_loss_between_predictions_is_delta(self) -> None:
        loss, candidates, y, _ = self._setting()
        last, first = candidates.counts - 1, torch.zeros_like(candidates.counts)
        other = (y + 1) % self.n_classes
        for h1, y2, h2 in ((last, y, first), (first, other, last)):
            rows = zip(y.tolist(), candidates.rows(h1).tolist(), y2.tolist(), candidates.rows(h2).tolist(), strict=True)
            expected = torch.tensor([self._delta(loss, candidates, *z) for z in rows], dtype=torch.float64)
            _assert_close(loss.between(candidates, y, h1, y2, h2), expected)

    # ---- what follows from it ------------------------------------------------------------------------------------

    def test_expected_loss_is_the_sum_over_the_truth(self) -> None:
        loss, candidates, y, p = self._setting()
        expected = self._expected_loss(loss, candidates, y, p)
        _assert_close(loss.expected_loss(candidates, y, p, self.n_classes), expected)

    def test_expected_loss_is_linear_in_any_weights(self) -> None:
        loss, candidates, y, p = self._setting()
        weights = p - 2 * random_weights(candidates, seed=1)
        expected = self._expected_loss(loss, candidates, y, weights)
        _assert_close(loss.expected_loss(candidates, y, weights, self.n_classes), expected)

    def test_expected_loss_at_one_prediction_is_that_entry_of_all(self) -> None:
        loss, candidates, y, p = self._setting()
        expectation, every = ExpectedLoss(loss, candidates, y, self.n_classes), self._expected_loss(loss, candidates, y, p)
        rows = candidates.offsets + candidates.counts // 2
        for k in range(self.n_classes):
            label = torch.full_like(y, k)
            _assert_close(expectation.expected_at(p, label, rows), every[rows, k])

    def test_diversity_is_the_double_sum(self) -> None:
        loss, candidates, y, p = self._setting()
        expected = torch.zeros(len(candidates), dtype=torch.float64)
        for one, two in _pairs(candidates):
            i = int(candidates.sample[one])
            expected[i] += float(p[one] * p[two]) * self._delta(loss, candidates, int(y[i]), one, int(y[i]), two)
        _assert_close(loss.diversity(candidates, y, p), expected)

    def test_derivatives_in_p_are_those_of_differences(self) -> None:
        loss, candidates, y, p = self._setting()
        for limit in (TINY, AMPLE):
            expectation = ExpectedLoss(loss, candidates, y, self.n_classes, limit)
            for function in (expectation.expected_loss, expectation.diversity):
                assert gradcheck(function, p.requires_grad_(), fast_mode=limit == TINY)

    def test_diversity_over_all_classes_is_the_double_sum(self) -> None:
        loss, candidates, y, _ = self._setting()
        q = self._joint(candidates)
        expected = torch.zeros(len(candidates), dtype=torch.float64)
        for one, two in _pairs(candidates):
            for y1 in range(self.n_classes):
                for y2 in range(self.n_classes):
                    delta = self._delta(loss, candidates, y1, one, y2, two)
                    expected[int(candidates.sample[one])] += float(q[one, y1] * q[two, y2]) * delta
        for limit in (TINY, AMPLE):
            _assert_close(ExpectedLoss(loss, candidates, y, self.n_classes, limit).joint_diversity(q), expected)

    def test_derivative_of_the_diversity_over_all_classes_is_that_of_differences(self) -> None:
        loss, candidates, y, _ = self._setting()
        q = self._joint(candidates).requires_grad_()
        assert gradcheck(ExpectedLoss(loss, candidates, y, self.n_classes).joint_diversity, q, fast_mode=True)

    def test_blocks_of_any_size_give_the_same(self) -> None:
        loss, candidates, y, p = self._setting()
        one, many = (ExpectedLoss(loss, candidates, y, self.n_classes, limit) for limit in (AMPLE, TINY))
        torch.testing.assert_close(many.expected_loss(p), one.expected_loss(p))
        torch.testing.assert_close(many.diversity(p), one.diversity(p))

    def test_single_precision_agrees_with_double(self) -> None:
        loss, candidates, y, p = self._setting()
        for method in ("expected_loss", "diversity"):
            single, double = (getattr(ExpectedLoss(loss, candidates, y, self.n_classes), method)(q) for q in (p.float(), p))
            assert single.dtype == torch.float32
            assert double.dtype == torch.float64
            _assert_close(single.double(), double)


class ConditionalConformance:
    """Properties of every P_θ(h | x, y): a distribution over each sample's candidates, differentiable in its parameters."""

    n_classes = 3

    def make_model(self, candidates: Candidates, y: Tensor) -> ConditionalModel:
        """The distribution under test, for these candidates of three features and these outputs."""
        raise NotImplementedError("a subclass of ConditionalConformance must say how its model is made")

    def make_candidates(self) -> Candidates:
        return random_candidates([3, 1, 6, 3, 2])

    def _setting(self) -> tuple[ConditionalModel, Candidates, Tensor]:
        candidates = self.make_candidates()
        y = torch.arange(len(candidates)) % self.n_classes
        return self.make_model(candidates, y).double(), candidates, y

    def test_probabilities_are_not_negative_and_sum_to_one_over_each_sample(self) -> None:
        model, candidates, y = self._setting()
        p = model(candidates, y).p
        assert p.shape == (candidates.n_candidates,)
        assert bool((p >= 0).all())
        torch.testing.assert_close(segment_sum(p, candidates.counts), torch.ones(len(candidates), dtype=p.dtype))

    def test_log_prob_is_the_logarithm_of_the_probability(self) -> None:
        model, candidates, y = self._setting()
        torch.testing.assert_close(model.log_prob(candidates, y), model(candidates, y).p.log())

    def test_a_sample_does_not_depend_on_the_others(self) -> None:
        model, candidates, y = self._setting()
        features = torch.where((candidates.sample == 0)[:, None], candidates.features, -candidates.features)
        mirrored = Candidates(features, candidates.counts, candidates.boxes, prior=candidates.prior)
        first = candidates.sample == 0
        torch.testing.assert_close(model(mirrored, y).p[first], model(candidates, y).p[first])

    def test_the_prior_multiplies_the_probabilities(self) -> None:
        model, candidates, y = self._setting()
        p, sample = model(candidates, y).p.detach(), candidates.sample
        for prior in (_log_weights(candidates, 1)[:, 0], _log_weights(candidates, self.n_classes)):
            own = prior if prior.dim() == 1 else prior[torch.arange(len(prior)), y[sample]]
            product = p * own.exp()
            expected = product / segment_sum(product, candidates.counts)[sample]
            torch.testing.assert_close(model(candidates.with_prior(prior), y).p.detach(), expected)

    def test_equal_weights_are_no_prior(self) -> None:
        model, candidates, y = self._setting()
        constant = 0.1 + 3 * candidates.sample.double()[:, None] + torch.arange(self.n_classes)
        for prior in (constant[:, 0], constant):
            assert torch.equal(model(candidates.with_prior(prior), y).p, model(candidates, y).p)

    def test_derivative_in_the_parameters_is_that_of_differences(self) -> None:
        model, candidates, y = self._setting()
        candidates = candidates.with_prior(_log_weights(candidates, self.n_classes))
        names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]

        def probabilities(*values: Tensor) -> Tensor:
            return functional_call(model, dict(zip(names, values, strict=True)), (candidates, y)).p

        if names:
            values = tuple(model.get_parameter(name).detach().clone().requires_grad_() for name in names)
            assert gradcheck(probabilities, values)


def _log_weights(candidates: Candidates, n_columns: int) -> Tensor:
    """(T, n_columns): random log weights of h."""
    return torch.randn(candidates.n_candidates, n_columns, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


def _pairs(candidates: Candidates) -> list[tuple[int, int]]:
    """All pairs of packed rows that belong to one sample."""
    sample = candidates.sample.tolist()
    return [(a, b) for a in range(len(sample)) for b in range(len(sample)) if sample[a] == sample[b]]


def _assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=CLOSE, atol=CLOSE)
