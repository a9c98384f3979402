"""Files about a version that are made from its public record alone, for other readers than ours."""
