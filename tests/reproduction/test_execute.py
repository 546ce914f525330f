"""One run: its measures are those of its model, and only a supervised learner is told the truth."""

import pytest
import torch

from lvmdc import DISC, LSVM, Candidates, OverlapLoss, Supervised, ZeroOneLoss
from lvmdc.boxes import box_iou
from lvmdc.reproduction import Problem, execute, plan_runs
from lvmdc.reproduction.runner import measure
from lvmdc.vision.datasets import cluttered_digits


def one(small, digits, learner, loss="zero_one", C=1.0):
    runs = plan_runs(small(learner, C=(C,)), digits.key)
    return next(run for run in runs if run.loss == loss and not run.inner)


def test_measures_are_those_of_the_model_on_the_test_part(small, digits):
    run = one(small, digits, "lvmdc.LSVM", "overlap")
    found = execute(run, digits)
    train, test = run.division.parts(digits.y, digits.groups)
    model = LSVM(OverlapLoss(), C=1.0, tol=0.1, max_iter=5, seed=0).fit(digits.candidates.subset(train), digits.y[train])
    held_out = digits.candidates.subset(test)
    measures = found["measures"]
    assert measures["loss"] == pytest.approx(1 - model.score(held_out, digits.y[test], digits.h[test]))
    assert measures["error"] == pytest.approx(1 - model.score(held_out, digits.y[test]))
    assert measures["objective"] == pytest.approx(model.objective_)
    y_hat, h_hat = model.predict(held_out)
    iou = box_iou(held_out.boxes[held_out.rows(h_hat)], digits.truth[test])
    assert measures["loss_annotated"] == pytest.approx(float(torch.where(y_hat == digits.y[test], 1 - iou, 1.0).double().mean()), abs=1e-6)
    assert measures["corloc"] == pytest.approx(float((iou >= 0.5).double().mean()))
    assert measures["seconds"] > 0
    assert measures["passes"] >= 1
    assert found["run"]["division"]["fold"] == 0


def test_predictions_are_kept_of_the_fold_that_is_drawn(small, digits):
    runs = [run for run in plan_runs(small("lvmdc.DISC", C=(1.0,)), digits.key) if run.loss == "zero_one"]
    kept = [execute(run, digits).get("predictions") for run in runs]
    assert [found is not None for found in kept] == [run.division.fold == 0 and not run.inner for run in runs]
    train, test = runs[0].division.parts(digits.y, digits.groups)
    model = DISC(ZeroOneLoss(), C=1.0, tol=0.1, max_iter=5).fit(digits.candidates.subset(train), digits.y[train])
    held_out = digits.candidates.subset(test)
    y_hat, h_hat = model.predict(held_out)
    assert (kept[0]["y"], kept[0]["h"]) == (y_hat.tolist(), h_hat.tolist())
    assert kept[0]["p"] == pytest.approx(model.predict_latent_proba(held_out, digits.y[test]).tolist(), abs=1e-6)
    assert execute(one(small, digits, "lvmdc.LSVM"), digits)["predictions"]["p"] is None  # all on one candidate


def test_supervised_learner_is_told_the_truth_and_no_other(small, digits):
    run = one(small, digits, "lvmdc.Supervised")
    train, test = run.division.parts(digits.y, digits.groups)
    model = Supervised(ZeroOneLoss(), C=1.0, tol=0.1, max_iter=5).fit(digits.candidates.subset(train), digits.y[train], h=digits.h[train])
    expected = 1 - model.score(digits.candidates.subset(test), digits.y[test], digits.h[test])
    assert execute(run, digits)["measures"]["loss"] == pytest.approx(expected)
    # Another truth in training changes the supervised learner and nothing else.
    lies = Problem(digits.candidates, digits.y, torch.zeros_like(digits.h), digits.truth, digits.groups)
    assert execute(run, lies)["measures"]["objective"] != execute(run, digits)["measures"]["objective"]
    weak = one(small, digits, "lvmdc.DISC")
    assert execute(weak, lies)["measures"]["objective"] == execute(weak, digits)["measures"]["objective"]


def test_learner_that_does_not_converge_is_recorded_and_not_printed(small, digits, recwarn):
    run = next(r for r in plan_runs(small("lvmdc.DISC", C=(1.0,)), digits.key) if r.loss == "overlap")
    settings = tuple(sorted((dict(run.settings) | {"max_iter": 1, "anneal": 2.0}).items()))
    found = execute(type(run)(**{**run.__dict__, "settings": settings}), digits)
    assert not found["converged"]
    assert "stopped at max_iter=1" in found["warnings"][0]
    assert not [w for w in recwarn if "max_iter" in str(w.message)]


def test_loss_against_the_annotated_box_is_worse_where_no_candidate_is_it(digits):
    class Perfect:
        """Predicts the truth."""

        def predict(self, candidates):
            return digits.y, digits.h

    everything = torch.arange(len(digits))
    found = measure(Perfect(), OverlapLoss(), digits, everything)
    assert found["loss"] == 0
    assert 0 < found["loss_annotated"] == pytest.approx(1 - found["overlap"])
    assert measure(Perfect(), ZeroOneLoss(), digits, everything)["loss_annotated"] == 0


def test_key_of_the_problem_follows_its_numbers(digits):
    c = digits.candidates
    assert Problem(c, digits.y, digits.h, digits.truth, digits.groups).key == digits.key
    other = Candidates(c.features + 1e-3, c.counts, c.boxes)
    assert Problem(other, digits.y, digits.h, digits.truth, digits.groups).key != digits.key
    assert Problem(c, digits.y.flip(0), digits.h, digits.truth, digits.groups).key != digits.key
    assert Problem(c, digits.y, digits.h, digits.truth, None).key != digits.key


def test_problem_comes_back_from_its_file_mapped(digits, samples):
    back = Problem.load(samples)
    assert back.key == digits.key
    assert torch.equal(back.h, digits.h)


def test_images_without_true_boxes_are_refused(digits):
    images = cluttered_digits(per_class=6)
    images.boxes = None
    with pytest.raises(ValueError, match=r"data\.images must have true boxes to measure by, but they have none"):
        Problem.of(images, digits.candidates)
