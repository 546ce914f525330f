"""Words of older command lines, which work for one release."""

import logging

import pytest

from lvmdc.lightning.renamed import renamed_words


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["solver=exact"], ["module=exact"]),
        (["solver=end_to_end", "solver.network.grid=2"], ["module=end_to_end", "module.network.grid=2"]),
        (["solver=stochastic"], ["module=dual"]),
        (["solver=stochastic", "solver.dual=false", "solver.patience=3"], ["module=alternating", "module.patience=3"]),
        (["solver=stochastic", "prediction=mlp"], ["module=alternating", "prediction=mlp"]),
        (["solver=stochastic", "conditional=mlp", "solver.dual=true"], ["module=alternating", "conditional=mlp"]),
        (["solver=stochastic", "solver.norm=group"], ["module=sparse", "module.norm=group"]),
        (["solver=stochastic", "method=disc_soft"], ["module=soft", "method=disc_soft"]),
        (["-m", "solver=exact,stochastic", "seed=0,1"], ["-m", "module=exact,dual", "seed=0,1"]),
        (["experiment=object_detection", "method.solver=one_slack"], ["experiment=object_detection", "method.solver=one_slack"]),
    ],
)
def test_old_words_become_new_ones_with_a_warning(old, new, caplog):
    with caplog.at_level(logging.WARNING, logger="lvmdc"):
        assert renamed_words(old) == new
    assert len(caplog.records) == sum(word not in new for word in old)
    assert all(word in caplog.text for word in old if word not in new)


def test_the_training_script_takes_an_old_word(script):
    code, said = script("train", "solver=stochastic", "method.C=-1", "paths.log_dir=logs")
    assert code == 1
    assert said == "error: C must be a positive number, but it is -1"
