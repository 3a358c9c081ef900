# The numbers of TestClusteredSurvival, by R's survival package: Rscript survival.R
# The lifetimes are those of the test: groups of rollouts that share their luck.
library(survival)
group <- rep(1:8, c(4, 4, 3, 4, 2, 4, 3, 4))
time <- c(1, 1, 2, 2,  6, 7, 9, 9,  3, 3, 4,  9, 9, 9, 8,  2, 1,  5, 6, 6, 7,  1, 2, 2,  9, 8, 9, 9)
event <- c(1, 1, 1, 1,  1, 1, 0, 0,  1, 1, 1,  0, 0, 0, 1,  1, 1,  1, 1, 0, 1,  1, 1, 1,  0, 1, 0, 0)
k <- max(group)
fit <- survfit(Surv(time, event) ~ 1, cluster = group, influence = TRUE)
q <- qt(.975, k - 1) * sqrt(k / (k - 1))
for (t in c(1, 2, 6, 8)) {
  at <- summary(fit, times = t)
  se <- at$std.err # grouped infinitesimal jackknife
  half <- q * se / at$surv / -log(at$surv)
  cat(sprintf("S(%g) %.9f robust se %.9f [%.9f, %.9f]\n", t, at$surv, se,
              exp(log(at$surv) * exp(half)), exp(log(at$surv) * exp(-half))))
}
# Restricted mean to tau: the integral of the curve, its error that of the influences.
for (tau in c(4.5, 8)) {
  upto <- fit$time[fit$time < tau]
  widths <- diff(c(0, upto, tau))
  s <- c(1, fit$surv[seq_along(upto)])
  infl <- cbind(0, fit$influence.surv[, seq_along(upto)]) # a row a group
  rmst <- sum(s * widths)
  se <- sqrt(sum((infl %*% widths)^2))
  cat(sprintf("RMST(%g) %.9f robust se %.9f [%.9f, %.9f]\n", tau, rmst, se, rmst - q * se, rmst + q * se))
}
g <- summary(survfit(Surv(time, event) ~ 1), times = c(1, 2, 6, 8))
cat("Greenwood se", sprintf("%.9f", g$std.err), "\n")
cat(R.version.string, "survival", as.character(packageVersion("survival")), "\n")
