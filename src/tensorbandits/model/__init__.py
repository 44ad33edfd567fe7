"""The posterior of a low-rank tensor: likelihoods, structures, sweeps, chains and tempering."""
