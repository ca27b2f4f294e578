"""Griffe: an Equinox module without `__init__` is constructed from its annotated fields, like a dataclass."""

from griffe import (
    Attribute,
    Class,
    Expr,
    ExprCall,
    ExprKeyword,
    Extension,
    Function,
    Module,
    Parameter,
    ParameterKind,
    Parameters,
)

_MODULES = ("equinox.Module", "eqx.Module")


class EquinoxFields(Extension):
    """Gives such classes the `__init__` that Equinox generates, with types and defaults."""

    def on_package(self, *, pkg: Module, **_) -> None:
        """Visit every class once the whole package is read, so that base classes are known."""
        _visit(pkg)


def _visit(scope: Module | Class) -> None:
    for member in list(scope.members.values()):
        if member.is_alias:
            continue
        if member.is_class or member.is_module:
            _visit(member)
        if member.is_class and "__init__" not in member.members and _is_module(member):
            first = Parameter("self", kind=ParameterKind.positional_or_keyword)
            parameters = Parameters(first, *_fields(member).values())
            member.set_member("__init__", Function("__init__", parameters=parameters, parent=member))


def _is_module(cls: Class) -> bool:
    local = [_known(cls, path) for path in _bases(cls)]
    return any(path in _MODULES for path in _bases(cls)) or any(base and _is_module(base) for base in local)


def _fields(cls: Class) -> dict[str, Parameter]:
    """Inherited fields come first, as in a dataclass."""
    fields: dict[str, Parameter] = {}
    for base in (_known(cls, path) for path in _bases(cls)):
        if base is not None:
            fields |= _fields(base)
    for name, member in cls.members.items():
        if isinstance(member, Attribute) and _is_field(member):
            fields[name] = Parameter(
                name,
                annotation=member.annotation,
                kind=ParameterKind.positional_or_keyword,
                default=_default(member),
            )
    return fields


def _default(field: Attribute) -> str | Expr | None:
    """The value after the equals sign, or the `default` of `eqx.field(...)`."""
    value = field.value
    if not (isinstance(value, ExprCall) and str(value.function).split(".")[-1] == "field"):
        return value
    keywords = {a.name: a.value for a in value.arguments if isinstance(a, ExprKeyword)}
    return keywords.get("default")


def _is_field(member: Attribute) -> bool:
    """Properties are attributes to Griffe, and variables of the class have an annotation, too."""
    wrapper = str(member.annotation).split("[")[0].split(".")[-1]
    return (
        member.annotation is not None
        and "property" not in member.labels
        and wrapper not in ("ClassVar", "AbstractVar", "AbstractClassVar")
    )


def _bases(cls: Class) -> list[str]:
    return [base.canonical_path if isinstance(base, Expr) else str(base) for base in cls.bases]


def _known(cls: Class, path: str) -> Class | None:
    try:
        found = cls.modules_collection[path]
    except KeyError:
        return None
    return found if found.is_class else None
