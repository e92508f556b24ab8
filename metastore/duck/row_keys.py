"""By which keys the rows of several tables are dealt, so that a query over each share gives its share of the rows.

Place in the flow: a statement that does not treat each row alone is divided by keys. All rows that an operator compares
have equal keys, so they are in one share: rows of a group, of a window, of a join. The keys are expressions over the
columns of the tables themselves. So each share is read by the query as it stands, and no text is rewritten.

From the result down to the tables, each operator chooses keys, or accepts those that are wanted above it:

- GROUP BY, DISTINCT, and windows: any of the expressions that they compare by.
- Joins: one side of an equality; the other side's tables get the other one. Before, a table that is complete in every
  share may be on the side that is not kept.
- UNION, INTERSECT, EXCEPT: any of the columns. UNION ALL: none.
- Projections and conditions: the expression that a wanted column is.

If that fails anywhere, the query is not divided by keys, and :class:`Untraced` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from metastore.duck.name_scope import BOUND, Scope, Untraced, items_of, moved
from metastore.duck.query_tables import QueryTables, WithNames, select_list
from metastore.duck.syntax import Node, below, conjuncts, identity, inner_query, ordinal, set_operands

Keys = tuple[Node, ...]
"""Bound expressions by whose values rows are dealt."""

Share = dict[str, Keys]
"""Tables whose rows are dealt by equal values, each by its own expressions; by none if any way is right."""

_Choice = dict[str, Node]
"""Bound expressions by their identities."""

_COMPARES: Final = frozenset({"COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM"})
_KEPT: Final = (frozenset({"INNER", "LEFT", "SEMI", "ANTI"}), frozenset({"INNER", "RIGHT"}))
"""Types of joins whose rows have the values of their left side, and of their right side."""

_OUTSIDE_FROM: Final = ("select_list", "where_clause", "group_expressions", "having", "qualify", "modifiers")


@dataclass(frozen=True)
class _SemiJoin:
    """A subquery whose rows only decide whether a row of the outer query stays.

    ``pairs`` are the sides of its equalities: the outer one by its identity, and the inner one. ``deal`` returns the
    keys of the inner tables by the inner sides.
    """

    outer: _Choice
    inner: _Choice
    deal: Callable[[Keys], list[Share]]


@dataclass(frozen=True)
class RowKeys:
    """Traces the keys of the divided tables of a query."""

    tables: QueryTables

    def shares(self, query: Node) -> list[Share]:
        """Returns the keys of all divided tables of ``query``. Raises Untraced."""
        found = self._query(query, None, WithNames())
        whole = _joined(found)  # a table that is read twice has the same keys both times
        linked: list[Share] = []
        for share in found:
            touching = [each for each in linked if each.keys() & share.keys()]
            linked = [each for each in linked if each not in touching]
            linked.append({name: whole[name] for each in (*touching, share) for name in each})
        return linked

    def _query(self, node: Node, wanted: Keys | None, names: WithNames) -> list[Share]:
        """Returns the keys of a query; ``wanted`` are bound to its columns as if it was a table."""
        if any(each["type"].startswith("LIMIT") for each in node["modifiers"]):
            raise Untraced("LIMIT counts the rows")
        names = names.inside(node)
        if node["type"] == "SELECT_NODE":
            return self._select(node, wanted, names)
        if node["type"] == "SET_OPERATION_NODE":
            return self._set_operation(node, wanted, names)
        raise Untraced("a recursive query compares the rows")

    def _set_operation(self, node: Node, wanted: Keys | None, names: WithNames) -> list[Share]:
        operands = set_operands(node)
        if not all(self.tables.is_divided(each, names) for each in operands):
            raise Untraced("a part of a set operation is the same in every share")
        kind = node["setop_type"]
        if wanted is None and kind.startswith("UNION") and node["setop_all"]:
            return [share for each in operands for share in self._query(each, None, names)]
        if kind == "UNION_BY_NAME":
            raise Untraced("UNION BY NAME compares the rows")
        whole = {str(place): _column(place) for place in range(len(self.tables.outputs(operands[0], names)))}
        return _first(wanted, whole, lambda keys: [_joined(self._each(operands, keys, names))])

    def _each(self, operands: Sequence[Node], keys: Keys | None, names: WithNames) -> Iterator[Share]:
        for each in operands:
            yield from self._query(each, keys, names)

    def _select(self, node: Node, wanted: Keys | None, names: WithNames) -> list[Share]:
        source = node["from_table"]
        if node.get("sample") or any(each.get("sample") for each in below(source)):
            raise Untraced("a sample counts the rows")
        scope = self.tables.scope(node, names)
        semis = list(self._semi_joins(node, scope, names))
        limits = [*_compared(node, scope), *(each.outer for each in semis)]

        def deal(keys: Keys | None) -> list[Share]:
            found = self._from(source, keys, tuple(conjuncts(node.get("where_clause"))), scope, names)
            for semi in semis:
                found += semi.deal(tuple(semi.inner[identity(each)] for each in keys or ()))
            return found if keys is None else [_joined(found)]

        if wanted is not None:
            outputs = [_bound_or_none(scope, each) for each in select_list(node, scope)]
            wanted = tuple(moved(each, outputs) for each in wanted)
            if not all(identity(each) in limit for limit in limits for each in wanted):
                raise Untraced("two operators compare the rows by different keys")
        if wanted is not None or not limits:
            return deal(wanted)
        common = {name: key for name, key in limits[0].items() if all(name in limit for limit in limits)}
        if not common:
            raise Untraced("operators compare the rows by different keys" if all(limits) else "no key divides the rows")
        return _first(None, common, deal)

    def _from(
        self, source: Node, keys: Keys | None, where: Sequence[Node], scope: Scope, names: WithNames
    ) -> list[Share]:
        """Returns the keys of a part of FROM; ``where`` are equalities that its rows must meet to be of use."""
        if source["type"] == "JOIN":
            return self._join(source, keys, where, scope, names)
        own = _items_in(source, scope)
        if any(not items_of(each) <= own for each in keys or ()):
            raise Untraced("a key is of another table than the one that is divided")
        if not self.tables.is_divided(source, names):
            if keys is not None:
                raise Untraced("a key is of a table that is the same in every share")
            return []
        query = self.tables.query_of(source, names)
        if query is not None:
            return self._query(query[0], keys, query[1])
        if source["type"] != "BASE_TABLE":
            raise Untraced("a subquery in FROM reads the rows")
        table = source["schema_name"]
        columns: list[Node | None] = [
            {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "column_names": [each]}
            for each in self.tables.columns[table]
        ]
        return [{table: tuple(moved(each, columns) for each in keys or ())}]

    def _join(
        self, join: Node, keys: Keys | None, where: Sequence[Node], scope: Scope, names: WithNames
    ) -> list[Share]:
        kind, how = join["join_type"], join["ref_type"]
        sides = (join["left"], join["right"])
        read = [side for side in (0, 1) if self.tables.is_divided(sides[side], names)]
        own = tuple(conjuncts(join.get("condition")))
        self._require_divisible(join, read, own, names)
        is_inner = kind == "INNER" and how in ("REGULAR", "CROSS")
        pairs = list(_equalities(join, (*own, *where) if is_inner else own, scope)) if how != "ASOF" else []

        def deal(chosen: Sequence[tuple[Node, Node]] | None) -> list[Share]:
            found: list[Share] = []
            for side in read:
                given = None if chosen is None else tuple(pair[side] for pair in chosen)
                above = (*where, *own) if is_inner else where if kind in _KEPT[side] else ()
                found += self._from(sides[side], given, above, scope, names)
            return found if chosen is None else [_joined(found)]

        if keys is not None:
            return deal([_pair_of(each, join, pairs, scope, read) for each in keys])
        if len(read) == 1:
            return deal(None)
        if not pairs:
            raise Untraced("no equality joins two divided tables")
        by_left = {identity(pair[0]): pair for pair in pairs}
        lefts = {name: pair[0] for name, pair in by_left.items()}
        return _first(None, lefts, lambda chosen: deal([by_left[identity(each)] for each in chosen or ()]))

    def _require_divisible(self, join: Node, read: Sequence[int], own: Sequence[Node], names: WithNames) -> None:
        """Raises Untraced for a join whose sides with the numbers ``read`` cannot be divided."""
        kind, how = join["join_type"], join["ref_type"]
        if any(self.tables.is_divided(each, names) for each in _subqueries(own)):
            raise Untraced("a subquery in a join reads the rows")
        if len(read) == 2:
            if how not in ("REGULAR", "CROSS"):
                raise Untraced(f"a join of type {how} compares the rows")
        elif kind not in _KEPT[read[0]] or how == "POSITIONAL" or (how == "ASOF" and read[0] == 1):
            raise Untraced(f"a join of type {kind} compares the rows of {how if how != 'REGULAR' else 'both sides'}")

    def _semi_joins(self, node: Node, scope: Scope, names: WithNames) -> Iterator[_SemiJoin]:
        """Yields the subqueries of WHERE that read divided tables. Raises Untraced for subqueries elsewhere."""
        found = list(_subqueries([node.get(part) for part in _OUTSIDE_FROM]))
        read = [each for each in found if self.tables.is_divided(each, names)]
        if read and not self.tables.is_divided(node["from_table"], names):
            raise Untraced("a subquery reads the rows")
        for condition in conjuncts(node.get("where_clause")):
            negated = condition["type"] == "OPERATOR_NOT"
            each = condition["children"][0] if negated else condition
            if not any(each is one for one in read):
                continue
            if each["subquery_type"] == "EXISTS":
                yield self._exists(inner_query(each), scope, names)
            elif each["subquery_type"] == "ANY" and each["comparison_type"] == "COMPARE_EQUAL" and not negated:
                outer = scope.bound(each["child"])
                query = inner_query(each)

                def deal(keys: Keys, query: Node = query) -> list[Share]:
                    return self._query(query, keys, names)

                yield _SemiJoin({identity(outer): outer}, {identity(outer): _column(0)}, deal)
            else:
                continue
            read = [one for one in read if one is not each]
        if read:
            raise Untraced("a subquery reads the rows")

    def _exists(self, query: Node, scope: Scope, names: WithNames) -> _SemiJoin:
        names = names.inside(query)
        if query["type"] != "SELECT_NODE" or query["modifiers"] or query.get("qualify"):
            raise Untraced("a subquery compares the rows")
        inside = self.tables.scope(query, names)
        where = tuple(conjuncts(query.get("where_clause")))
        if any(True for _ in _compared(query, inside)) or any(
            self.tables.is_divided(each, names) for each in _subqueries([query.get(part) for part in _OUTSIDE_FROM])
        ):
            raise Untraced("a subquery compares the rows")
        outer: _Choice = {}
        inner: _Choice = {}
        for condition in where:
            if condition["type"] not in _COMPARES:
                continue
            for one, other in ((condition["left"], condition["right"]), (condition["right"], condition["left"])):
                own, foreign = _bound_or_none(inside, one), _bound_or_none(scope, other)
                if own is not None and foreign is not None and _bound_or_none(inside, other) is None:
                    outer[identity(foreign)], inner[identity(foreign)] = foreign, own
        return _SemiJoin(outer, inner, lambda keys: self._from(query["from_table"], keys, where, inside, names))


def _column(place: int) -> Node:
    return {"class": BOUND, "item": 0, "column": place, "rest": []}


def _bound_or_none(scope: Scope, expression: Node) -> Node | None:
    try:
        return scope.bound(expression)
    except Untraced:
        return None


def _choice(scope: Scope, expressions: Iterable[Node]) -> _Choice:
    """Returns those of ``expressions`` that rows can be dealt by."""
    bound = [_bound_or_none(scope, each) for each in expressions]
    return {identity(each): each for each in bound if each is not None and items_of(each)}


def _compared(node: Node, scope: Scope) -> Iterator[_Choice]:
    """Yields, for each operator of a SELECT that compares rows, the expressions by which it does."""
    targets = select_list(node, scope)

    def meant(expressions: Iterable[Node]) -> list[Node]:
        places = [(ordinal(each), each) for each in expressions]
        return [each if place is None else targets[place - 1] for place, each in places]

    outside = [node.get(part) for part in ("select_list", "having", "qualify", "modifiers")]
    grouping = node.get("group_expressions") or ()
    if grouping:
        sets = node.get("group_sets") or [range(len(grouping))]
        yield _choice(scope, meant(each for place, each in enumerate(grouping) if all(place in own for own in sets)))
    elif node["aggregate_handling"] == "FORCE_AGGREGATES":
        yield _choice(scope, targets)
    elif node.get("having") or any(_is_aggregate(each, scope) for each in _expressions(outside)):
        yield {}
    for each in _expressions(outside):
        if each.get("class") == "WINDOW":
            yield _choice(scope, each.get("partitions") or ())
    for modifier in node["modifiers"]:
        if modifier["type"] == "DISTINCT_MODIFIER":
            yield _choice(scope, meant(modifier.get("distinct_on_targets") or targets))


def _is_aggregate(node: Node, scope: Scope) -> bool:
    return node.get("class") == "FUNCTION" and node["function_name"].lower() in scope.aggregates


def _expressions(node: Any) -> Iterator[Node]:
    """Yields the nodes of expressions, without those in subqueries."""
    if isinstance(node, list):
        for each in node:
            yield from _expressions(each)
    elif isinstance(node, dict):
        yield node
        if node.get("class") != "SUBQUERY":
            for each in node.values():
                yield from _expressions(each)


def _subqueries(node: Any) -> Iterator[Node]:
    return (each for each in _expressions(list(node)) if each.get("class") == "SUBQUERY")


def _equalities(join: Node, conditions: Iterable[Node], scope: Scope) -> Iterator[tuple[Node, Node]]:
    """Yields the equal expressions of the two sides of a join, the left one first."""
    left, right = _items_in(join["left"], scope), _items_in(join["right"], scope)
    for condition in conditions:
        if condition["type"] not in _COMPARES:
            continue
        one, other = _bound_or_none(scope, condition["left"]), _bound_or_none(scope, condition["right"])
        for first, second in ((one, other), (other, one)):
            if first is not None and second is not None and _is_of(first, left) and _is_of(second, right):
                yield first, second
    for name in join.get("using_columns") or ():
        sides = [
            [_column_at(number, scope, name) for number in sorted(side) if name.lower() in scope.items[number].columns]
            for side in (left, right)
        ]
        if all(len(side) == 1 for side in sides):
            yield sides[0][0], sides[1][0]


def _pair_of(
    key: Node, join: Node, pairs: Sequence[tuple[Node, Node]], scope: Scope, read: Sequence[int]
) -> tuple[Node, Node]:
    """Returns what stands for ``key`` on both sides of a join. Raises Untraced if a side in ``read`` has nothing."""
    for side in (0, 1):
        if join["join_type"] not in _KEPT[side]:
            continue
        for pair in pairs:
            if identity(pair[side]) == identity(key):
                return pair
        if list(read) == [side] and items_of(key) <= _items_in((join["left"], join["right"])[side], scope):
            return key, key
    raise Untraced("a join and what is above it compare the rows by different keys")


def _is_of(expression: Node, items: set[int]) -> bool:
    own = items_of(expression)
    return bool(own) and own <= items


def _column_at(number: int, scope: Scope, name: str) -> Node:
    place = list(scope.items[number].columns).index(name.lower())
    return {"class": BOUND, "item": number, "column": place, "rest": []}


def _items_in(source: Node, scope: Scope) -> set[int]:
    """Returns the places of the tables in a part of FROM."""
    if source["type"] == "JOIN":
        return _items_in(source["left"], scope) | _items_in(source["right"], scope)
    return {number for number, item in enumerate(scope.items) if item.node is source}


def _joined(shares: Iterable[Share]) -> Share:
    """Returns all tables of ``shares`` with their keys. Raises Untraced if a table has two."""
    made: Share = {}
    for share in shares:
        for table, keys in share.items():
            if list(map(identity, made.setdefault(table, keys))) != list(map(identity, keys)):
                raise Untraced("it reads the table several times, by different keys")
    return made


def _first(wanted: Keys | None, choice: _Choice, deal: Callable[[Keys | None], list[Share]]) -> list[Share]:
    """Returns the keys for ``wanted``; else for all of ``choice`` together, or the first one that serves alone."""
    if wanted is not None:
        return deal(wanted)
    singles: list[Keys] = [(each,) for each in choice.values()]
    return _first_of([tuple(choice.values()), *singles] if len(singles) > 1 else singles, deal)


def _first_of(keys: Sequence[Keys], deal: Callable[[Keys | None], list[Share]]) -> list[Share]:
    try:
        return deal(keys[0])
    except Untraced:
        if len(keys) == 1:
            raise
    return _first_of(keys[1:], deal)
