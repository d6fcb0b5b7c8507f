"""The jobs of a run at sites, as the plan has them: their nodes, when they are due, what is told while they wait."""
