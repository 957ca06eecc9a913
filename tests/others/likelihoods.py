"""Likelihoods as statistics packages write them: classes that hold their data, censoring masks, risk sets."""

import numpy as np

RNG = np.random.default_rng(7)
COVARIATES = RNG.normal(size=(12, 2))
DURATIONS = RNG.exponential(size=12) + 0.1
EVENTS = RNG.random(12) < 0.6
COUNTS = RNG.poisson(2.0, size=12)


# ---- a model of counts, in statsmodels' style


class CountModel:
    def __init__(self, endog, exog, offset=None):
        self.endog = np.asarray(endog)
        self.exog = np.asarray(exog)
        self.offset = np.zeros(self.exog.shape[0]) if offset is None else offset
        self.nobs = self.exog.shape[0]

    def predict(self, params, exog=None, linear=False):
        if exog is None:
            exog = self.exog
        linpred = np.dot(exog, params[: exog.shape[1]]) + self.offset
        return linpred if linear else np.exp(linpred)

    def loglike(self, params):
        return np.sum(self.loglikeobs(params))


class Poisson(CountModel):
    def loglikeobs(self, params):
        from scipy.special import gammaln

        XB = self.predict(params, linear=True)
        return -np.exp(XB) + self.endog * XB - gammaln(self.endog + 1)


class NegativeBinomial(CountModel):
    def loglikeobs(self, params):
        from scipy.special import gammaln

        alpha = np.exp(params[-1])
        mu = self.predict(params[:-1])
        size = 1.0 / alpha
        prob = size / (size + mu)
        coeff = gammaln(size + self.endog) - gammaln(self.endog + 1) - gammaln(size)
        return coeff + size * np.log(prob) + self.endog * np.log1p(-prob)


class ZeroInflatedPoisson(CountModel):
    def __init__(self, endog, exog, exog_infl):
        super().__init__(endog, exog)
        self.exog_infl = exog_infl
        self.k_inflate = exog_infl.shape[1]
        self.model_main = Poisson(endog, exog)

    def loglikeobs(self, params):
        params_infl = params[: self.k_inflate]
        params_main = params[self.k_inflate :]
        w = 1 / (1 + np.exp(-np.dot(self.exog_infl, params_infl)))
        w = np.clip(w, np.finfo(float).eps, 1 - np.finfo(float).eps)
        llf_main = self.model_main.loglikeobs(params_main)
        zero_idx = np.nonzero(self.endog == 0)[0]
        nonzero_idx = np.nonzero(self.endog)[0]
        llf = np.zeros_like(self.endog, dtype=np.float64)
        llf[zero_idx] = np.log(w[zero_idx] + (1 - w[zero_idx]) * np.exp(llf_main[zero_idx]))
        llf[nonzero_idx] = np.log(1 - w[nonzero_idx]) + llf_main[nonzero_idx]
        return llf


WITH_CONSTANT = np.column_stack((np.ones(12), COVARIATES))


def fitted_poisson(params):
    return -Poisson(COUNTS, np.column_stack([np.ones(len(COUNTS)), COVARIATES])).loglike(params)


def fitted_zero_inflated(params):
    return -ZeroInflatedPoisson(COUNTS, WITH_CONSTANT, np.ones((12, 1))).loglike(params)


negative_binomial = NegativeBinomial(COUNTS, WITH_CONSTANT, offset=np.log(DURATIONS))


# ---- survival, in lifelines' style


def weibull_cumulative_hazard(params, times):
    lambda_, rho_ = params
    return (np.clip(times, 1e-25, 1e25) / np.exp(lambda_)) ** np.exp(rho_)


def weibull_log_hazard(params, times):
    lambda_, rho_ = params
    return rho_ - lambda_ + np.expm1(rho_) * (np.log(times) - lambda_)


def censored(params, T=DURATIONS, E=EVENTS):
    """A censoring mask in a default argument."""
    log_hazard = weibull_log_hazard(params, T[E])
    return -(np.sum(log_hazard) - np.sum(weibull_cumulative_hazard(params, T))) / len(T)


def censored_groups(beta, X, T, E):
    """The mask is an argument; either group may be empty."""
    rate = np.exp(np.dot(X, beta))
    observed = np.log(rate[E]).sum() - (rate[E] * T[E]).sum()
    return -(observed - np.sum(rate[~E] * T[~E]))


def censored_by_closure(E):
    def negative_log_likelihood(beta, X, T):
        ll = 0.0
        ll = ll + (X[E] @ beta - np.exp(X[E] @ beta) * T[E]).sum()
        ll = ll - (np.exp(np.matmul(X[~E], beta)) * T[~E]).sum()
        return -ll

    return negative_log_likelihood


def masked_everywhere(beta, X, T, E):
    eta = X.dot(beta)
    return -np.sum(np.where(E, eta, 0.0) - T * np.exp(eta)) + 0.5 * np.square(beta).sum()


class RegressionFitter:
    """Parameters by name in a dict, a design matrix each."""

    _fitted_parameter_names = ("lambda_", "rho_")

    def __init__(self, penalizer=0.1, l1_ratio=0.5):
        self.penalizer = penalizer
        self.l1_ratio = l1_ratio

    def _cumulative_hazard(self, params, T, Xs):
        lambda_ = np.exp(np.dot(Xs["lambda_"], params["lambda_"]))
        rho_ = np.exp(np.dot(Xs["rho_"], params["rho_"]))
        return (T / lambda_) ** rho_

    def _log_hazard(self, params, T, Xs):
        log_lambda_ = np.dot(Xs["lambda_"], params["lambda_"])
        log_rho_ = np.dot(Xs["rho_"], params["rho_"])
        return log_rho_ - log_lambda_ + (np.exp(log_rho_) - 1) * (np.log(T) - log_lambda_)

    def _penalty(self, params):
        coefs = np.concatenate([params[name][1:] for name in self._fitted_parameter_names if len(params[name]) > 1])
        return self.penalizer * (
            self.l1_ratio * np.sqrt(coefs**2 + 1e-6).sum() + 0.5 * (1 - self.l1_ratio) * (coefs**2).sum()
        )

    def __call__(self, params, T, E, W, Xs):
        ll = (W * E * self._log_hazard(params, T, Xs)).sum()
        ll += -(W * self._cumulative_hazard(params, T, Xs)).sum()
        return -ll / np.sum(W) + self._penalty(params)


def cox_partial_likelihood(beta, X, T, E):
    """Risk sets are sums over all that live longer."""
    order = np.argsort(-T, kind="stable")
    X, E = X[order], E[order]
    log_risk = X @ beta
    shift = log_risk.max()
    at_risk = np.log(np.cumsum(np.exp(log_risk - shift))) + shift
    return -np.sum((log_risk - at_risk) * E) / np.maximum(E.sum(), 1)


def cox_in_loops(beta, X, T, E):
    order = np.argsort(-DURATIONS)
    risk_phi, log_lik = 0.0, 0.0
    for i in order:
        risk_phi = risk_phi + np.exp(np.dot(X[i], beta))
        if EVENTS[i]:
            log_lik += np.dot(X[i], beta) - np.log(risk_phi)
    return -log_lik


# ---- mixtures and regressions, in the style of autograd's tutorial


def logsumexp(X, axis, keepdims=False):
    max_X = np.max(X, axis=axis, keepdims=True)
    result = max_X + np.log(np.sum(np.exp(X - max_X), axis=axis, keepdims=True))
    return result if keepdims else np.squeeze(result, axis=axis)


def gaussian_mixture(params, data):
    """Weights, means and square roots of covariances; a list over the components."""

    def unpack(params):
        normalized_log_proportions = params["log proportions"] - logsumexp(params["log proportions"], axis=0)
        return normalized_log_proportions, params["means"], params["lower triangles"]

    def mvn_logpdf(x, mean, root):
        centred = x - mean
        cov = root @ root.T
        _, logdet = np.linalg.slogdet(2 * np.pi * cov)
        return -0.5 * (logdet + np.einsum("ni,ij,nj->n", centred, np.linalg.inv(cov), centred))

    cluster_lls = []
    for log_proportion, mean, root in zip(*unpack(params), strict=True):
        cluster_lls.append(log_proportion + mvn_logpdf(data, mean, root))
    cluster_lls = np.vstack(cluster_lls)
    return -np.sum(logsumexp(cluster_lls, axis=0))


def sigmoid(x):
    return 0.5 * (np.tanh(x / 2.0) + 1)


def logistic_predictions(weights, inputs):
    return sigmoid(np.dot(inputs, weights))


LOGISTIC_INPUTS = np.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]])
LOGISTIC_TARGETS = np.array([True, True, False, True])


def training_loss(weights):
    preds = logistic_predictions(weights, LOGISTIC_INPUTS)
    label_probabilities = preds * LOGISTIC_TARGETS + (1 - preds) * (1 - LOGISTIC_TARGETS)
    return -np.sum(np.log(label_probabilities))


BETA = np.array([0.3, -0.2])
SURVIVAL = (BETA, COVARIATES, DURATIONS)
MIXTURE = {
    "log proportions": np.array([0.1, -0.4]),
    "means": np.array([[0.5, 0.1], [-0.3, 0.8]]),
    "lower triangles": np.array([[[1.0, 0.1], [0.2, 1.5]], [[0.8, 0.0], [-0.3, 1.2]]]),
}
REGRESSION = (
    {"lambda_": np.array([0.2, 0.1, -0.3]), "rho_": np.array([0.15])},
    DURATIONS,
    EVENTS,
    np.ones(12),
    {"lambda_": WITH_CONSTANT, "rho_": WITH_CONSTANT[:, :1]},
)

PROGRAMS = {
    "weibull": (censored, (np.array([0.2, -0.1]),)),
    "weibull, tuple": (lambda a, b: censored((a, b)), (0.2, -0.1)),
    "closure": (censored_by_closure(EVENTS), SURVIVAL),
    "closure, empty": (censored_by_closure(np.full(12, True)), SURVIVAL),
    "masked": (masked_everywhere, (*SURVIVAL, EVENTS)),
    "regression by name": (RegressionFitter(), REGRESSION),
    "Cox": (cox_partial_likelihood, (*SURVIVAL, EVENTS)),
    "Cox in loops": (cox_in_loops, (*SURVIVAL, EVENTS)),
    "mixture": (gaussian_mixture, (MIXTURE, COVARIATES)),
    "logistic": (training_loss, (np.array([0.1, -0.2, 0.3]),)),
}
CENSORED = {
    "some": (censored_groups, (*SURVIVAL, EVENTS)),
    "none": (censored_groups, (*SURVIVAL, np.ones(12, dtype=bool))),
    "all": (censored_groups, (*SURVIVAL, np.zeros(12, dtype=bool))),
}
OF_SCIPY = {
    "Poisson": (fitted_poisson, (np.array([0.5, 0.1, -0.2]),)),
    "negative binomial": (negative_binomial.loglike, (np.array([0.5, 0.1, -0.2, -0.3]),)),
    "zero inflated": (fitted_zero_inflated, (np.array([-1.0, 0.5, 0.1, -0.2]),)),
}
