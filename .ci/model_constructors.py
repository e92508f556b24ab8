"""Pydantic's plugin for mypy, with the constructors that PyIceberg's models really have.

The original writes an ``__init__`` from the fields of every model, also where a model inherits one that was written by
hand, so ``EqualTo("a", 1)`` would be an error. And it does not see a default inside of ``Annotated``.
"""

from __future__ import annotations

from mypy.nodes import AssignmentStmt
from mypy.plugin import ClassDefContext
from mypy.types import UnboundType
from pydantic.mypy import PydanticModelTransformer, PydanticPlugin


class _Transformer(PydanticModelTransformer):
    @staticmethod
    def get_has_default(stmt: AssignmentStmt) -> bool:
        """A field that is optional inside of ``Annotated`` has a default, here and in PyIceberg."""
        annotation = stmt.unanalyzed_type
        optional = isinstance(annotation, UnboundType) and annotation.name == "Annotated" and "None" in str(annotation)
        return optional or PydanticModelTransformer.get_has_default(stmt)


class _Plugin(PydanticPlugin):
    def _pydantic_model_class_maker_callback(self, ctx: ClassDefContext) -> None:
        _Transformer(ctx.cls, ctx.reason, ctx.api, self.plugin_config).transform()
        own, *bases = ctx.cls.info.mro
        nearest = next(base for base in bases if "__init__" in base.names)
        inherits = nearest.module_name.startswith("pyiceberg.") and not nearest.names["__init__"].plugin_generated
        if inherits and own.names["__init__"].plugin_generated:
            del own.names["__init__"]


def plugin(_: str) -> type[PydanticPlugin]:
    """Return the class of the plugin, which mypy asks for."""
    return _Plugin
