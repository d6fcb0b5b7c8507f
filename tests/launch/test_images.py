"""Programs in images at a site: the image is brought there, and what is missing is told before anything starts."""

from __future__ import annotations

from pathlib import Path

from images import write_container_program, write_image
from several_sites import Sites


def with_image(sites: Sites, image: str = "pair.sif") -> Path:
    """Write the model of which one program runs in an image."""
    tell = "import os; image = os.environ['APPTAINER_CONTAINER']; print(image, os.stat(image).st_nlink)"
    model = sites.write_model(asks=tell)
    text = model.read_text().replace('path="asks.py"', f'path="asks.py" run:image="{image}"')
    model.write_text(text)
    return model


def give_container_program(sites: Sites, name: str = "apptainer") -> None:
    program = write_container_program(sites.folder / "containers", name)
    sites.more["alpha"] += f'container = "{program}"\n'


def test_an_image_is_brought_to_its_site_and_is_there_once(sites: Sites) -> None:
    give_container_program(sites)
    model = with_image(sites)
    write_image(model.parent / "pair.sif")
    sites.end(sites.launch(model)).check(0, "the last answer is 16.1")
    said = (sites.run_folder / "instances/asks/stdout").read_text().splitlines()[0].split()
    assert said[0].endswith("/model/pair.sif")
    assert said[1] == "2", "its copy in the store is the same file"


def test_a_site_without_apptainer_is_told_before_anything_starts(sites: Sites) -> None:
    model = with_image(sites)
    write_image(model.parent / "pair.sif")
    ended = sites.end(sites.launch(model))
    ended.check(5, "alpha has no apptainer, which starts programs in images (run:image)", "container =")
    assert not (sites.run_folder / "instances/answers/stdout").exists()


def test_a_check_of_sites_says_what_starts_programs_in_images(sites: Sites) -> None:
    give_container_program(sites)
    sites.more["beta"] += 'container = "/no/such/apptainer"\n'
    checked = sites.do("xmml", "sites", "check", "--sites", str(sites.write_sites()), "alpha", "beta")
    checked.check(5, "apptainer version ", "/no/such/apptainer does not answer, so programs cannot run in images")


def test_singularity_is_named_where_it_is_there_instead(sites: Sites) -> None:
    program = write_container_program(sites.folder / "containers", "singularity")
    sites.more["alpha"] += f'setup = ["export PATH=$PATH:{program.parent}"]\n'
    model = with_image(sites)
    write_image(model.parent / "pair.sif")
    sites.end(sites.launch(model)).check(5, "alpha has no apptainer", 'set container = "singularity"')


def test_an_image_that_is_not_at_its_site_is_told(sites: Sites) -> None:
    give_container_program(sites)
    model = with_image(sites, "/no/such/pair.sif")
    sites.end(sites.launch(model)).check(5, "the image /no/such/pair.sif is not at alpha: put it there")
