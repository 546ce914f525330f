"""DISC on chains: sequences of m sites with S states each, S^m values of h. Seconds of one training, one core, and what it learned.

Sequences are drawn: every class has its own sparse transitions between states that look the same in all of them, so that a site tells its
state but not the class. A tenth of the sites are known in training. Losses are on sequences that training has not seen.

    python benchmarks/chains.py [sequences] [sites] [states]
"""

import sys
import time
from functools import partial

import numpy as np
import torch

from lvmdc.chains import ChainDISC, ChainLSVM, Chains

CLASSES, FEATURES, NOISE, KNOWN, J = 2, 10, 1.0, 0.1, 0.001
MODELS = {
    "LSVM": ChainLSVM,
    "DISC": partial(ChainDISC, J=J),
    "DISC, P_θ without transitions": partial(ChainDISC, J=J, theta_transitions=False),
    "DISC, P_w sees neighbours too": partial(ChainDISC, J=J, window=1),
}


def draw(n: int, m: int, states: int, seed: int) -> tuple[Chains, torch.Tensor, torch.Tensor]:
    """n sequences of m sites, their classes (n,) and the states of all sites (T,)."""
    world, rng = np.random.default_rng(0), np.random.default_rng(seed)
    looks = world.normal(size=(states, FEATURES))
    follows = world.dirichlet(np.full(states, 0.1), size=(CLASSES, states))  # (K, S, S), a few states likely after each
    y, h = rng.integers(CLASSES, size=n), []
    for label in y:
        h.append(int(rng.integers(states)))
        for _ in range(m - 1):
            h.append(int(rng.choice(states, p=follows[label, h[-1]])))
    x = looks[h] + NOISE * rng.normal(size=(len(h), FEATURES))
    x = np.concatenate([x, np.ones((len(h), 1))], axis=1).astype(np.float32)
    return Chains(x, np.full(n, m)), torch.from_numpy(y), torch.tensor(h)


def main() -> None:
    torch.set_num_threads(1)
    n, m, states = (int(a) for a in (*sys.argv[1:4], *(500, 50, 30)[len(sys.argv) - 1 :]))
    chains, y, h = draw(n, m, states, seed=1)
    known = torch.where(torch.rand(len(h), generator=torch.Generator().manual_seed(0)) < KNOWN, h, -1)
    test, test_y, test_h = draw(300, m, states, seed=2)
    print(f"{n} sequences of {m} sites, {states} states, {CLASSES} classes, {KNOWN:.0%} of the sites known")
    print(f"{'':<32}{'CPU s':>7}{'s':>7}{'iterations':>12}{'passes':>8}{'objective':>11}{'test loss %':>13}{'class error %':>15}")
    ChainDISC(2).fit(Chains(torch.eye(4), [2, 2]), [0, 1])  # compiles
    for name, make in MODELS.items():
        started, clock = time.process_time(), time.perf_counter()
        model = make(states, C=1.0).fit(chains, y, known)
        seconds, wall = time.process_time() - started, time.perf_counter() - clock
        loss, error = 1 - model.score(test, test_y, test_h), 1 - model.score(test, test_y)
        row = f"{name:<32}{seconds:>7.1f}{wall:>7.1f}{model.n_iter_:>12}{model.history_[-1]['passes']:>8}{model.objective_:>11.4f}"
        print(f"{row}{100 * loss:>13.1f}{100 * error:>15.1f}", flush=True)


if __name__ == "__main__":
    main()
