"""Gamma, Dirichlet, Poisson and binomial random numbers, on the device and under torch.compile: their distributions."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

import xloom.torch  # noqa: F401
from xloom.torch.lowering import rejection
from xloom.torch.metrics import METRICS

ATEN = torch.ops.aten
N = 20000
DOORS = ("device", "compile")


def drawn(door, function, *tensors):
    """function(*tensors) as NumPy's array of f64, made by one of the doors and not by a kernel of the CPU."""
    before = dict(METRICS.fallbacks)
    torch.manual_seed(7)
    if door == "device":
        found = function(*[t.to("xla") for t in tensors])
    else:
        torch._dynamo.reset()  # torch traces few of these with dynamic shapes, which another case's would make of them
        found = torch.compile(lambda *given: function(*given), backend="xloom", fullgraph=True)(*tensors)
    assert dict(METRICS.fallbacks) == before
    return found.detach().cpu().double().numpy()


def assert_is_distributed(sample, distribution):
    """By the test of Kolmogorov and Smirnov."""
    assert scipy.stats.kstest(sample, distribution.cdf).pvalue > 1e-3


def assert_counts_are_distributed(sample, distribution):
    """By chi², in about ten bins of equal probability."""
    edges = np.unique(distribution.ppf(np.linspace(0.1, 0.9, 9)))
    bins = np.searchsorted(edges, sample)
    expected = np.diff(np.concatenate([[0], distribution.cdf(edges), [1]])) * len(sample)
    kept = expected > 5
    found = np.bincount(bins, minlength=len(expected))
    assert found[~kept].sum() <= 30
    assert scipy.stats.chisquare(found[kept], expected[kept] * found[kept].sum() / expected[kept].sum()).pvalue > 1e-3
    assert np.array_equal(sample, np.floor(sample))


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_standard_gamma(door, dtype):
    alphas = [0.05, 0.7, 1.0, 12.0, 900.0]
    sample = drawn(door, ATEN._standard_gamma, torch.tensor(alphas, dtype=dtype).repeat(N, 1))
    for column, alpha in zip(sample.T, alphas, strict=True):
        assert_is_distributed(column, scipy.stats.gamma(alpha))


@pytest.mark.parametrize("door", DOORS)
def test_gamma_of_no_shape_and_of_none_that_is_a_number(door):
    found = drawn(door, ATEN._standard_gamma, torch.tensor([0.0, 1e-30, torch.inf, torch.nan, -2.0]))
    tiny = torch.finfo(torch.float32).tiny
    np.testing.assert_array_equal(found, [tiny, tiny, np.inf, np.nan, np.nan])


@pytest.mark.parametrize("door", DOORS)
def test_dirichlet(door):
    concentration = torch.tensor([0.01, 0.5, 3.0])
    sample = drawn(door, ATEN._sample_dirichlet, concentration.repeat(N, 1))
    np.testing.assert_allclose(sample.sum(1), 1, atol=1e-6)
    assert sample.min() > 0 and sample.max() < 1
    for column, alpha in zip(sample.T[1:], [0.5, 3.0], strict=True):
        assert_is_distributed(column, scipy.stats.beta(alpha, 3.51 - alpha))


@pytest.mark.parametrize("door", DOORS)
def test_poisson(door):
    means = [0.3, 9.9, 10.0, 31.0, 1e6]
    sample = drawn(door, torch.poisson, torch.tensor(means, dtype=torch.float64).repeat(N, 1))
    for column, mean in zip(sample.T, means, strict=True):
        assert_counts_are_distributed(column, scipy.stats.poisson(mean))
    np.testing.assert_array_equal(drawn(door, torch.poisson, torch.tensor([0.0, torch.nan, -1])), [0, np.nan, np.nan])


@pytest.mark.parametrize("door", DOORS)
def test_binomial(door):
    cases = [(7, 0.4), (30, 0.95), (50, 0.5), (1e6, 1e-6), (1e6, 0.3)]
    counts, probabilities = (torch.tensor(each, dtype=torch.float64) for each in zip(*cases, strict=True))
    sample = drawn(door, torch.binomial, counts.repeat(N, 1), probabilities.repeat(N, 1))
    for column, (n, p) in zip(sample.T, cases, strict=True):
        assert_counts_are_distributed(column, scipy.stats.binom(n, p))
    certain = drawn(door, torch.binomial, torch.tensor([5.0, 5, 0, 5]), torch.tensor([0, 1, 0.5, torch.nan]))
    np.testing.assert_array_equal(certain, [0, 5, 0, np.nan])


@pytest.mark.parametrize("door", DOORS)
def test_gamma_moves_with_its_shape_as_its_quantiles_do(door):
    alphas = np.array([0.02, 0.6, 1.0, 4.0, 70.0, 3000.0, 2e4])[:, None]
    places = np.array([0.01, 0.3, 0.5, 0.8, 0.999])[None]
    sample = scipy.special.gammaincinv(alphas, places)
    step = 1e-4 * alphas
    ends = [scipy.special.gammaincinv(alphas + sign * step, places) for sign in (1, -1)]
    expected = (ends[0] - ends[1]) / (2 * step)
    given = torch.tensor(np.broadcast_to(alphas, sample.shape).copy()), torch.tensor(sample)
    np.testing.assert_allclose(drawn(door, ATEN._standard_gamma_grad, *given), expected, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("door", DOORS)
def test_beta_moves_with_its_first_parameter_as_its_quantiles_do(door):
    alphas = np.array([0.3, 1.0, 4.0, 200.0])[:, None, None]
    betas = np.array([0.2, 1.0, 30.0, 500.0])[None, :, None]
    places = np.array([0.01, 0.3, 0.5, 0.8, 0.99])[None, None]
    sample = scipy.special.betaincinv(alphas, betas, places)
    step = 1e-4 * alphas
    ends = [scipy.special.betaincinv(alphas + sign * step, betas, places) for sign in (1, -1)]
    expected = (ends[0] - ends[1]) / (2 * step) / (1 - sample)
    given = [torch.tensor(np.broadcast_to(each, sample.shape).copy()) for each in (sample, alphas, alphas + betas)]
    kept = sample < 1 - 1e-6  # nearer to 1 the difference of quantiles is rounding
    found = drawn(door, ATEN._dirichlet_grad, *given)
    np.testing.assert_allclose(found[kept], expected[kept], rtol=1e-5, atol=1e-10)


@pytest.mark.parametrize("door", DOORS)
def test_means_of_distributions_have_their_gradients(door):
    def gradient_of_mean(rate):
        concentration = torch.tensor([2.0, 5.0], device=rate.device)
        with torch.enable_grad():
            return torch.distributions.Gamma(concentration, rate, validate_args=False).rsample((N,)).mean(0)

    rate = torch.tensor([1.0, 4.0], device="xla" if door == "device" else "cpu", requires_grad=True)
    function = torch.compile(gradient_of_mean, backend="xloom") if door == "compile" else gradient_of_mean
    function(rate).sum().backward()
    assert rate.grad is not None
    np.testing.assert_allclose(rate.grad.cpu(), [-2.0, -5 / 16], rtol=0.05)


def test_more_are_refused_than_were_expected(monkeypatch):
    """Then there is another round for all, and what was accepted stays."""
    monkeypatch.setattr(rejection, "_SHARE", 40)  # of counts of mean 10 a quarter is refused
    sample = drawn("compile", torch.poisson, torch.full((N + 11,), 10.0))
    assert_counts_are_distributed(sample, scipy.stats.poisson(10.0))
