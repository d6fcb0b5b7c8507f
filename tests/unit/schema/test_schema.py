"""The schemas: what they accept and refuse without our own checks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lxml import etree
from xmml_schema import CATALOG, MODEL, PARAMETERS, RUN

from xmml.checks.attributes import KNOWN
from xmml.run_options import SETTINGS

DOCUMENTS = Path(__file__).parents[2] / "data" / "documents"
XS = "{http://www.w3.org/2001/XMLSchema}"


def valid(definitions: str = "", topology: str = "", head: str = 'id="m"') -> bool:
    text = f'<model {head} xmlns="http://www.mapper-project.eu/xmml"><definitions>{definitions}</definitions><topology>{topology}</topology></model>'
    return bool(etree.XMLSchema(file=str(MODEL)).validate(etree.fromstring(text)))


def submodel(inside: str = "", ports: str = "", attributes: str = "") -> str:
    return f'<submodel id="A" {attributes}><timescale/>{inside}<ports>{ports}</ports></submodel>'


@pytest.mark.parametrize("path", [MODEL, PARAMETERS, RUN])
def test_the_schemas_are_schemas(path: Path) -> None:
    etree.XMLSchema(file=str(path))


def test_the_example_documents_are_valid() -> None:
    schema = etree.XMLSchema(file=str(MODEL))
    for name in ("reaction.xml", "restenosis.xml"):
        assert schema.validate(etree.parse(DOCUMENTS / name)), schema.error_log
    parameters = etree.XMLSchema(file=str(PARAMETERS))
    assert parameters.validate(etree.parse(DOCUMENTS / "restenosis_parameters.xml")), parameters.error_log


@pytest.mark.parametrize(
    ("definitions", "topology"),
    [
        ("", ""),
        ('<datatype id="d"><description>text</description><extra/></datatype>', ""),
        (submodel(attributes='type="any" unknown="passes"'), ""),
        ('<terminal id="t" type="sink"><ports/></terminal><filter id="f" type="converter"/>' + submodel(), ""),
        (submodel(), '<instance submodel="A" multiplicity="8"/>'),
        (submodel(), '<instance submodel="A" multiplicity="dynamic"/>'),
        (submodel(ports='<in id="i"/><out id="o" operator="Of" type="state"/>'), ""),
        (
            submodel().replace(
                "</ports>",
                '</ports><implementation><interpreter/><platform os="x"/><library name="l"/>'
                '<code language="c"/></implementation>',
            ),
            "",
        ),
        (submodel('<otherscale id="a"/><otherscale id="b"/>'), ""),
    ],
)
def test_what_is_valid(definitions: str, topology: str) -> None:
    assert valid(definitions, topology)


@pytest.mark.parametrize(
    ("definitions", "topology"),
    [
        (submodel() + '<datatype id="d"/>', ""),
        (submodel() + submodel(), ""),
        (submodel('<otherscale id="a"/><otherscale id="a"/>'), ""),
        (submodel(ports='<in id="i"/><out id="i"/>'), ""),
        (submodel(ports='<in id="i" operator="O_i"/>'), ""),
        (submodel(ports='<in id="i" datatype="d"/>'), ""),
        (submodel().replace("<ports>", '<ports foo="1">'), ""),
        (submodel('<param id="p" value="1"/><param id="p" value="1"/>'), ""),
        ('<datatype id="d" extends="e"/>', ""),
        (submodel(), '<instance submodel="B"/>'),
        (submodel(), '<instance submodel="A" multiplicity="0"/>'),
        (submodel(), '<instance submodel="A" multiplicity="many"/>'),
        (submodel(), '<coupling from="a[0].o" to="b.i"/>'),
        (submodel(), '<coupling from="a.o" to="b.i"><apply filter="f"/></coupling>'),
        (submodel(), '<coupling from="a.o" to="b.i"/><instance submodel="A"/>'),
        (submodel().replace("<timescale/>", '<timescale delta="1 m^2"/>'), ""),
    ],
)
def test_what_is_not_valid(definitions: str, topology: str) -> None:
    assert not valid(definitions, topology)


def test_only_version_0_4_is_accepted() -> None:
    assert valid(head='id="m" xmml_version="0.4"')
    assert not valid(head='id="m" xmml_version="0.3.3"')


def attributes(type_, root) -> set[str]:  # type: ignore[no-untyped-def]
    """Return the attributes that a type of a schema declares."""

    def named(kind: str, name: str):  # type: ignore[no-untyped-def]
        return root.find(f"{XS}{kind}[@name='{name.split(':')[1]}']")

    found = {each.get("name") for each in type_.findall(f"{XS}attribute")}
    for each in type_.findall(f"{XS}attributeGroup"):
        found |= attributes(named("attributeGroup", each.get("ref")), root)
    for each in type_.findall(f"{XS}complexContent/{XS}extension"):
        found |= attributes(each, root) | attributes(named("complexType", each.get("base")), root)
    return found


def test_the_known_attributes_are_those_of_the_schemas() -> None:
    declared: dict[str, set[str]] = {}
    for path in (MODEL, PARAMETERS):
        root = etree.parse(path).getroot()
        for element in root.iter(f"{XS}element"):
            if element.get("name"):
                inner = element.find(f"{XS}complexType")
                if inner is None:
                    inner = root.find(f"{XS}complexType[@name='{element.get('type').split(':')[1]}']")
                declared[element.get("name")] = attributes(inner, root)
    for name in ("description", "extra", "ports"):
        del declared[name]
    assert {name: set(known) for name, known in KNOWN.items()} == declared


@pytest.mark.parametrize("path", [MODEL, PARAMETERS, RUN])
def test_every_element_and_attribute_is_explained(path: Path) -> None:
    silent = [
        f"{declared.sourceline}: {declared.get('name')}"
        for declared in etree.parse(path).iter(f"{XS}element", f"{XS}attribute")
        if declared.get("name") and len(declared.findtext(f"{XS}annotation/{XS}documentation", "").split()) < 3
    ]
    assert silent == []


def test_the_page_of_the_run_extension_lists_every_attribute_of_it() -> None:
    page = (DOCUMENTS.parents[2] / "docs" / "run-extension.md").read_text(encoding="utf-8")
    declared = {each.get("name") for each in etree.parse(RUN).getroot().findall(f"{XS}attribute")}
    assert set(re.findall(r'`run:([\w-]+)="', page)) == declared


def test_the_page_of_the_run_extension_lists_each_attribute_once_and_below_the_elements_that_it_belongs_on() -> None:
    page = (DOCUMENTS.parents[2] / "docs" / "run-extension.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## On (`.*)\n((?:(?!## ).*\n)*)", page, re.MULTILINE)
    listed = {heading: re.findall(r'^\| `run:([\w-]+)="', section, re.MULTILINE) for heading, section in sections}
    misplaced = {
        heading: [name for name in names if not set(re.findall("`(.*?)`", heading)) <= set(SETTINGS[name].elements)]
        for heading, names in listed.items()
    }
    assert not any(misplaced.values()), misplaced
    assert sorted(name for names in listed.values() for name in names) == sorted(SETTINGS)


def test_the_catalog_names_the_schema_of_each_namespace() -> None:
    entries = {each.get("name"): CATALOG.parent / (each.get("uri") or "") for each in etree.parse(CATALOG).getroot()}
    entries.pop(None, None)
    assert entries == {etree.parse(path).getroot().get("targetNamespace"): path for path in (MODEL, PARAMETERS, RUN)}
