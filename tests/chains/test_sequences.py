"""The packed set of sequences, and what of a labeled sequence is counted."""

import pytest
import torch
from brute import every, psi, random_chains

from lvmdc.chains import ChainMap, Chains
from lvmdc.chains.w_block import Labelings


def test_padding_and_packing_are_inverse_and_differentiable():
    chains, _ = random_chains(n=5, m=4, d=2)
    assert torch.equal(chains.pack(chains.pad(chains.features)), chains.features)
    assert bool((chains.pad(chains.features)[~chains.mask] == 0).all())
    assert torch.autograd.gradcheck(chains.pad, chains.features.clone().requires_grad_())


def test_subsets_copies_and_files_stay_chains(tmp_path):
    chains, _ = random_chains(n=4, phi=2)
    chains.save(tmp_path / "chains.npz")
    back = Chains.load(tmp_path / "chains.npz")
    for made in (chains.subset([2, 0]), chains[1:3], chains.to(dtype=torch.float32), chains.detach(), chains.for_phi(), back):
        assert isinstance(made, Chains)
    assert torch.equal(back.phi, chains.phi.cpu())
    assert "Chains(4 sequences" in repr(chains)


@pytest.mark.parametrize("radius", [0, 1, 2, 5])
def test_a_window_sees_neighbours_and_nothing_of_other_sequences(radius):
    chains, _ = random_chains(n=5, m=4, d=2)
    wide = chains.window(radius).features
    for i, (start, count) in enumerate(zip(chains.offsets.tolist(), chains.counts.tolist(), strict=True)):
        for t in range(count):
            parts = [
                chains.features[start + t + s] if 0 <= t + s < count else torch.zeros(2, dtype=torch.float64)
                for s in range(-radius, radius + 1)
            ]
            assert torch.equal(wide[start + t], torch.cat(parts)), i
    with pytest.raises(ValueError, match="radius must not be negative"):
        chains.window(-1)


@pytest.mark.parametrize("transitions", [True, False])
def test_scores_are_the_products_with_psi(transitions):
    chains, _ = random_chains(n=3, m=3, d=2)
    chain_map = ChainMap(2, 2, transitions)
    w = torch.randn(chain_map.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores = chain_map.scores(chains, w)
    for i in range(3):
        for h in every(chains, i, 2):
            padded = torch.zeros(3, 3, dtype=torch.long)
            padded[i, : len(h)] = torch.tensor(h)
            by_definition = psi(chains, i, h, 2, transitions)
            assert torch.allclose(chain_map.vectors(chains, torch.tensor([i]), padded[i : i + 1])[0], by_definition)
            assert torch.allclose(scores.of(padded)[i], w @ by_definition)


def test_labelings_keep_their_numbers_and_numbers_are_used_again():
    chains, y = random_chains(n=4, m=3)
    met = Labelings(chains, ChainMap(2, 2), n_classes=2)
    samples = torch.tensor([0, 1, 0, 1])
    h = torch.tensor([[0, 1, 0], [0, 0, 0], [1, 1, 1], [0, 0, 0]])
    rows = met.rows(samples, h)
    assert rows[1] == rows[3]
    assert len(set(rows.tolist())) == 3
    assert torch.equal(met.h(rows), h)
    assert torch.equal(met.samples(rows), samples)
    met.forget_but(rows[:1].numpy())
    assert len(met) == 1
    assert met.rows(samples[:1], h[:1]) == rows[0]
    again = met.rows(samples[2:3], 1 - h[2:3])
    assert again != rows[0]
    w = torch.randn(met.size(chains), dtype=torch.float64)
    vectors, blocks = met.vectors(chains, torch.tensor([1]), rows[:1])
    assert torch.allclose(met.scores(chains, w)[rows[0], 1], vectors[0] @ w.reshape(2, -1)[blocks[0]])
    other = Labelings(chains, ChainMap(2, 2), n_classes=2)
    other.load_state(met.state())
    assert other.rows(samples[:1], h[:1]) == rows[0]
    assert torch.equal(other.rows(samples[1:2], h[1:2]), met.rows(samples[1:2], h[1:2]))
    assert len(y) == 4
