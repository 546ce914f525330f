"""Runs: measures are those of the model, a finished run is not repeated, a failed or killed one does not stop the others."""

import dataclasses
import json
from concurrent.futures.process import BrokenProcessPool

import pytest
import torch

from lvmdc import DISC, LSVM, Candidates, OverlapLoss, Supervised, ZeroOneLoss
from lvmdc.losses.overlap import box_iou
from lvmdc.reproduction import Division, Problem, Store, do_runs, execute, plan_runs, runner
from lvmdc.reproduction.runner import DIED, code_digest, measure
from lvmdc.sequences import planted_motifs
from lvmdc.vision.datasets import ImageSet, cluttered_digits


def one(protocol, digits, learner, loss="zero_one", C=1.0):
    runs = plan_runs(protocol(learner, C=(C,)), digits.key)
    return next(run for run in runs if run.loss == loss and not run.inner)


def test_measures_are_those_of_the_model_on_the_test_part(protocol, digits):
    run = one(protocol, digits, "lvmdc.LSVM", "overlap")
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


def test_predictions_are_kept_of_the_fold_that_is_drawn(protocol, digits):
    runs = [run for run in plan_runs(protocol("lvmdc.DISC", C=(1.0,)), digits.key) if run.loss == "zero_one"]
    kept = [execute(run, digits).get("predictions") for run in runs]
    assert [found is not None for found in kept] == [run.division.fold == 0 and not run.inner for run in runs]
    train, test = runs[0].division.parts(digits.y, digits.groups)
    model = DISC(ZeroOneLoss(), C=1.0, tol=0.1, max_iter=5).fit(digits.candidates.subset(train), digits.y[train])
    held_out = digits.candidates.subset(test)
    y_hat, h_hat = model.predict(held_out)
    assert (kept[0]["y"], kept[0]["h"]) == (y_hat.tolist(), h_hat.tolist())
    assert kept[0]["p"] == pytest.approx(model.predict_latent_proba(held_out, digits.y[test]).tolist(), abs=1e-6)
    assert execute(one(protocol, digits, "lvmdc.LSVM"), digits)["predictions"]["p"] is None  # all on one candidate


def test_only_a_supervised_learner_gets_the_true_candidates(protocol, digits):
    run = one(protocol, digits, "lvmdc.Supervised")
    train, test = run.division.parts(digits.y, digits.groups)
    model = Supervised(ZeroOneLoss(), C=1.0, tol=0.1, max_iter=5).fit(digits.candidates.subset(train), digits.y[train], h=digits.h[train])
    expected = 1 - model.score(digits.candidates.subset(test), digits.y[test], digits.h[test])
    assert execute(run, digits)["measures"]["loss"] == pytest.approx(expected)
    # Another truth in training changes the supervised learner and nothing else.
    lies = Problem(digits.candidates, digits.y, torch.zeros_like(digits.h), digits.truth, digits.groups)
    assert execute(run, lies)["measures"]["objective"] != execute(run, digits)["measures"]["objective"]
    weak = one(protocol, digits, "lvmdc.DISC")
    assert execute(weak, lies)["measures"]["objective"] == execute(weak, digits)["measures"]["objective"]


def test_learner_that_does_not_converge_is_recorded_and_not_printed(protocol, digits, recwarn):
    run = next(r for r in plan_runs(protocol("lvmdc.DISC", C=(1.0,)), digits.key) if r.loss == "overlap")
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
    known = cluttered_digits(per_class=6)
    images = ImageSet([known.image(i) for i in range(len(known))], known.classes, known.y)
    with pytest.raises(ValueError, match=r"data\.images must have ground-truth boxes to measure by, but they have none"):
        Problem.of(images, digits.candidates)


@pytest.fixture
def runs(protocol, digits):
    planned = protocol("lvmdc.LSVM", "lvmdc.ILSVM", C=(1.0,), losses={"zero_one": {"_target_": "lvmdc.ZeroOneLoss"}})
    return plan_runs(planned, digits.key)


def quiet(runs, samples, store, n_jobs=1):
    do_runs(runs, samples, store, n_jobs=n_jobs)


def test_every_run_leaves_one_whole_result(runs, samples, tmp_path):
    store = Store(tmp_path / "out")
    quiet(runs, samples, store)
    assert sorted(path.name for path in (tmp_path / "out" / "runs").iterdir()) == sorted(f"{run.key}.json" for run in runs)
    result = json.loads(store.path(runs[0]).read_text(encoding="utf-8"))
    assert 0 <= result["measures"]["loss"] <= 1
    assert result["run"]["settings"]["C"] == 1.0
    assert result["code"] == code_digest()
    assert not list((tmp_path / "out" / "failed").iterdir())


@pytest.mark.slow
@pytest.mark.ranks
def test_two_processes_find_the_same_numbers_as_one(runs, samples, tmp_path):
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    quiet(runs, samples, one)
    quiet(runs, samples, two, n_jobs=2)
    for run in runs:
        first, second = (dict(store.read(run)["measures"], seconds=0, cpu_seconds=0) for store in (one, two))
        assert first == second


def test_run_that_raises_is_contained_and_tried_again(runs, samples, tmp_path, monkeypatch):
    store, execute = Store(tmp_path), runner.execute

    def unlucky(run, *others):
        if run == runs[0]:
            raise RuntimeError("no luck today")
        return execute(run, *others)

    monkeypatch.setattr(runner, "execute", unlucky)
    quiet(runs, samples, store)
    assert store.read(runs[0]) is None
    text = store.failure(runs[0]).read_text(encoding="utf-8")
    assert "RuntimeError: no luck today" in text
    assert '"method": "LSVM"' in text
    assert all(store.read(run) is not None for run in runs[1:])
    monkeypatch.undo()
    quiet(runs[:1], samples, store)
    assert store.read(runs[0]) is not None
    assert not store.failure(runs[0]).exists()


@pytest.mark.slow
@pytest.mark.ranks
def test_run_that_kills_its_process_is_named_and_all_others_are_done(runs, samples, tmp_path):
    store = Store(tmp_path)
    settings = tuple(sorted({**dict(runs[1].settings), "init": "uniform"}.items()))
    deadly = dataclasses.replace(runs[1], learner="deadly.Deadly", settings=settings)
    quiet([runs[0], deadly, *runs[2:]], samples, store, n_jobs=2)
    assert store.read(deadly) is None
    assert [path.name for path in (tmp_path / "failed").iterdir()] == [f"{deadly.key}.txt"]
    assert DIED in store.failure(deadly).read_text(encoding="utf-8")
    assert all(store.read(run) is not None for run in runs if run != runs[1])


def test_the_runs_under_way_when_the_pool_breaks_are_repeated_alone(runs, samples, tmp_path, monkeypatch):
    store, parallel, batches = Store(tmp_path), runner._parallel, []

    def dying(batch, *others):
        """One run is done, then a deadly one begins beside another, and the pool breaks."""
        batches.append(batch)
        if runs[1] not in batch:
            yield from parallel(batch, *others)
            return
        yield from parallel([run for run in batch if run != runs[1]][:1], *others)
        for run in (runs[1], *batches[-1][2:3]):
            store.fail(run, DIED)
        raise BrokenProcessPool("a worker process was killed")

    monkeypatch.setattr(runner, "_parallel", dying)
    quiet(runs, samples, store)
    assert [len(batch) for batch in batches] == [len(runs), len(runs) - 3, 1, 1]
    assert [store.read(run) is not None for run in runs] == [True, False, *[True] * (len(runs) - 2)]
    assert store.died(runs[1])


def test_pool_that_breaks_before_any_run_is_not_tried_again(runs, samples, tmp_path, monkeypatch):
    def broken(*_):
        raise BrokenProcessPool("no process can be started")

    monkeypatch.setattr(runner, "_parallel", broken)
    with pytest.raises(BrokenProcessPool, match="no process can be started"):
        quiet(runs, samples, Store(tmp_path))


def test_interruption_keeps_what_is_done(runs, samples, tmp_path, monkeypatch):
    store, execute, done = Store(tmp_path), runner.execute, []

    def interrupted(run, *others):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(run)
        return execute(run, *others)

    monkeypatch.setattr(runner, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        quiet(runs, samples, store)
    assert sum(store.read(run) is not None for run in runs) == 2
    assert not list((tmp_path / "failed").iterdir())


def test_damaged_result_is_named_and_counts_as_not_done(runs, tmp_path, caplog):
    store = Store(tmp_path)
    store.path(runs[0]).parent.mkdir(parents=True)
    store.path(runs[0]).write_text('{"measures": ')
    assert store.read(runs[0]) is None
    assert f"{runs[0].key}.json is damaged" in caplog.text


def settled(run, **settings):
    """The run with other settings."""
    return dataclasses.replace(run, settings=tuple(sorted((dict(run.settings) | settings).items())))


@pytest.mark.parametrize("learner", ["lvmdc.LSVM", "lvmdc.DISC", "lvmdc.EM", "lvmdc.SoftDISC"])
def test_a_shared_start_gives_what_each_learner_finds_from_its_own(learner, protocol, digits):
    run = settled(one(protocol, digits, learner, "overlap"), init="likelihood")
    train, _ = run.division.parts(digits.y, digits.groups)
    alone = run.make_learner().fit(digits.candidates.subset(train), digits.y[train])
    assert execute(run, digits)["measures"]["objective"] == pytest.approx(alone.objective_, rel=1e-9)


def test_learners_that_do_not_look_at_the_loss_are_trained_once(protocol, digits):
    part = runner.Part(digits, one(protocol, digits, "lvmdc.EM").division)
    first, second = (part.learn(one(protocol, digits, "lvmdc.EM", loss)) for loss in ("zero_one", "overlap"))
    assert second.learner is first.learner
    assert second.cpu_seconds == 0
    first, second = (part.learn(one(protocol, digits, "lvmdc.LSVM", loss)) for loss in ("zero_one", "overlap"))
    assert second.learner is not first.learner


def test_the_strength_of_the_prior_is_a_setting_of_the_run(protocol, digits):
    prior = torch.randn(digits.candidates.n_candidates, generator=torch.Generator().manual_seed(0))
    known = dataclasses.replace(digits, candidates=digits.candidates.with_prior(prior))
    plain = settled(one(protocol, known, "lvmdc.EM"), init="likelihood")
    objective = {s: execute(settled(plain, prior_strength=s), known)["measures"]["objective"] for s in (0.0, 1.0, 2.0)}
    assert objective[1.0] == execute(plain, known)["measures"]["objective"]
    assert objective[0.0] == execute(plain, digits)["measures"]["objective"]
    twice = dataclasses.replace(digits, candidates=digits.candidates.with_prior(prior, 2.0))
    assert objective[2.0] == execute(plain, twice)["measures"]["objective"]
    assert len(set(objective.values())) == 3


def test_noise_is_in_the_last_digit_of_the_training_features_alone(protocol, digits):
    run = one(protocol, digits, "lvmdc.LSVM")
    plain, noise = runner.Part(digits, run.division), runner.Part(digits, run.division, noise=1)
    moved = (noise.candidates.features / plain.candidates.features - 1).abs()
    moved = moved[plain.candidates.features.abs() > 1e-3]
    assert 1e-7 < float(moved.mean()) < 2e-6
    assert noise.problem is plain.problem
    assert dataclasses.replace(run, noise=1).key != run.key


def test_what_p_theta_is_sure_of_is_kept(protocol, digits):
    run = one(protocol, digits, "lvmdc.DISC")
    found = execute(run, digits)["posterior"]
    train, test = run.division.parts(digits.y, digits.groups)
    model = run.make_learner().fit(digits.candidates.subset(train), digits.y[train])
    held_out = digits.candidates.subset(test)
    p = model.predict_latent_proba(held_out, digits.y[test]).double()
    for i, own in enumerate(p.split(held_out.counts.tolist())):
        assert found["confidence"][i] == pytest.approx(float(own.max()), abs=1e-5)
        assert found["of_truth"][i] == pytest.approx(float(own[digits.h[test[i]]]), abs=1e-5)
        assert found["right"][i] == float(int(own.argmax()) == int(digits.h[test[i]]))
    assert "posterior" not in execute(one(protocol, digits, "lvmdc.LSVM"), digits)  # all on one h


def test_samples_without_boxes_and_without_truth_are_measured_by_their_labels(protocol):
    samples = planted_motifs(per_class=12)
    spec = {"_target_": "lvmdc.sequences.MotifMap", "width": samples.psi.width, "order": samples.psi.order}
    problem = Problem.of_samples(samples, spec)
    label = {"label": {"_target_": "lvmdc.LabelLoss"}}
    run = plan_runs(protocol("lvmdc.LSVM", C=(10.0,), losses=label), problem.key)[0]
    measures = execute(run, problem)["measures"]
    assert measures["loss"] == measures["error"]
    assert 0 <= measures["latent_error"] <= 1
    unknown = dataclasses.replace(problem, h=None)
    assert execute(run, unknown)["measures"]["loss"] == measures["loss"]
    with pytest.raises(ValueError, match=r"cannot be measured, because the true h is unknown: use losses\.label alone"):
        execute(dataclasses.replace(run, loss_spec='{"_target_": "lvmdc.ZeroOneLoss"}'), unknown)


def test_samples_that_come_divided_keep_their_division(tmp_path):
    samples = planted_motifs(per_class=12)
    samples.division = torch.arange(12), torch.arange(12, 24)
    problem = Problem.of_samples(samples, {"_target_": "lvmdc.sequences.MotifMap", "width": samples.psi.width})
    problem.save(tmp_path / "motifs.npz")
    back = Problem.load(tmp_path / "motifs.npz")
    train, test = Division(fold=3).parts(back.y, back.groups, back.published)
    assert (train.tolist(), test.tolist()) == (list(range(12)), list(range(12, 24)))
    assert back.joint_map().width == samples.psi.width
    assert back.key == problem.key


@pytest.mark.parametrize("learner", ["lvmdc.DISC", "lvmdc.EM"])
def test_p_theta_is_measured_with_the_prior_that_it_was_trained_with(learner, protocol, digits):
    prior = 5 * torch.randn(digits.candidates.n_candidates, generator=torch.Generator().manual_seed(0))
    known = dataclasses.replace(digits, candidates=digits.candidates.with_prior(prior))
    run = settled(one(protocol, known, learner), init="likelihood")
    without = execute(settled(run, prior_strength=0.0), known)
    assert without["posterior"] == execute(run, digits)["posterior"]
    assert without["posterior"] != execute(run, known)["posterior"]
    assert without["predictions"]["p"] == execute(run, digits)["predictions"]["p"]
