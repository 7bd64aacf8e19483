"""The line before a model: who asks for much waits behind everybody else."""

from studio.serving.waiting import Line


def test_a_visitor_with_many_requests_waits_behind_those_with_few_and_whoever_is_served_stays_so() -> None:
    line = Line(at_once=2)
    flood = [line.join("a program") for _ in range(4)]
    page, other = line.join(), line.join("another")
    assert [line.before(place) for place in (*flood[:3], page, other, flood[3])] == [0, 0, 1, 2, 3, 4]
    assert line.of_visitor("a program") == 4 and line.of_visitor("another") == 1
    flood[0].leave()
    assert [line.before(place) for place in (flood[1], flood[2], page, other, flood[3])] == [0, 0, 1, 2, 3]
