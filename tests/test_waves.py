"""Jobs of thousands of ranks: the one that failed is found among all that waited for it."""

from waves import write_wave

from correlator import diagnose


def test_the_one_rank_of_two_thousand_that_raised_is_named_and_the_others_are_collateral(tmp_path):
    write_wave(tmp_path, ranks=2048, guilty=1234)
    found = diagnose(tmp_path)
    assert found.initiator.ranks == [1234]
    assert found.initiator.nodes == ["gpu-b0154"]
    assert found.document.collateral.ranks == [rank for rank in range(2048) if rank != 1234]
    assert found.job.world_size == 2048
