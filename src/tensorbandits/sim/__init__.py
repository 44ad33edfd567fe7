"""Simulation: environments, the one round loop, replications side by side, their figures."""

from tensorbandits.sim.audience import Audience
from tensorbandits.sim.backends import run_jobs
from tensorbandits.sim.compare import Comparison, Row, compare
from tensorbandits.sim.environment import TensorEnvironment, paper_tensor
from tensorbandits.sim.jobs import Job, Run, run_job
from tensorbandits.sim.log_world import LogEnvironment, World
from tensorbandits.sim.loop import Trace, simulate
from tensorbandits.sim.plots import plot_regret
from tensorbandits.sim.recipes import PaperWorld, PolicyRecipe
from tensorbandits.sim.where import Where

__all__ = [
    "Audience",
    "Comparison",
    "Job",
    "LogEnvironment",
    "PaperWorld",
    "PolicyRecipe",
    "Row",
    "Run",
    "TensorEnvironment",
    "Trace",
    "Where",
    "World",
    "compare",
    "paper_tensor",
    "plot_regret",
    "run_job",
    "run_jobs",
    "simulate",
]
