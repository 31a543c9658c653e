"""Image sets: the idx format, the published statistics, CelebA in the forms people have it."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from hhvaem.datasets import load_images
from hhvaem.datasets.images import parse_idx
from hhvaem.errors import InputError


@pytest.mark.parametrize(("name", "mean"), [("mnist", 0.1307), ("fashion_mnist", 0.2860)])
def test_idx_sets(data_folder, name, mean):
    train = load_images(name, folder=data_folder)
    assert train.pixels.shape == (60000, 28, 28)
    assert train.pixels.mean() / 255 == pytest.approx(mean, abs=5e-5)
    assert train.labels.shape == (60000,)
    test = load_images(name, part="test", folder=data_folder)
    assert test.pixels.shape == (10000, 28, 28)
    if name == "fashion_mnist":
        assert set(np.bincount(train.labels)) == {6000}
        assert set(np.bincount(test.labels)) == {1000}
    else:
        assert train.labels[:5].tolist() == [5, 0, 4, 1, 9]
        assert test.labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert train.unlabelled == test.unlabelled == 0


def test_celeba_sample(data_folder):
    images = load_images("celeba", folder=data_folder)
    assert images.pixels.shape == (5000, 64, 64, 3)
    assert images.labels.shape == (5000, 40)
    assert images.unlabelled == 3000
    assert images.labelled[:2000].all()
    assert not images.labels[2000:].any()
    first = dict(zip(images.attributes, images.labels[0].tolist(), strict=True))
    assert (first["Arched_Eyebrows"], first["5_o_Clock_Shadow"], first["Young"]) == (1, 0, 1)
    assert len({picture.tobytes() for picture in images.pixels}) == 5000


def jpeg(colour, size=(178, 218)):
    """An image of one colour with a black margin, which the centre crop takes away."""
    picture = Image.new("RGB", size)
    picture.paste(
        Image.new("RGB", (148, 148), colour), ((size[0] - 148) // 2, (size[1] - 148) // 2)
    )
    stream = io.BytesIO()
    picture.save(stream, "jpeg", quality=95)
    return stream.getvalue()


ATTRIBUTES_TXT = "2\nBald Male\n000001.jpg -1  1\n000003.jpg  1  1\n"
ATTRIBUTES_CSV = "image_id,Bald,Male\n000001.jpg,-1,1\n000003.jpg,1,1\n"


@pytest.mark.parametrize("form", ["folder and txt", "zip and csv"])
def test_celeba_of_full_size(tmp_path, form):
    home = tmp_path / "celeba"
    pictures = {f"{number:06d}.jpg": jpeg("white") for number in (3, 2, 1)}
    if form == "folder and txt":
        (home / "img_align_celeba").mkdir(parents=True)
        for name, content in pictures.items():
            (home / "img_align_celeba" / name).write_bytes(content)
        (home / "list_attr_celeba.txt").write_text(ATTRIBUTES_TXT)
    else:
        home.mkdir()
        with zipfile.ZipFile(home / "img_align_celeba.zip", "w") as archive:
            for name, content in pictures.items():
                archive.writestr(f"img_align_celeba/{name}", content)
        (home / "list_attr_celeba.csv").write_text(ATTRIBUTES_CSV)
    images = load_images("celeba", folder=tmp_path)
    assert images.attributes == ("Bald", "Male")
    assert images.labels.tolist() == [[0, 1], [0, 0], [1, 1]]
    assert images.labelled.tolist() == [True, False, True]
    assert images.pixels.shape == (3, 64, 64, 3)
    assert images.pixels.min() > 240
    assert len(load_images("celeba", folder=tmp_path, limit=2).pixels) == 2


def celeba(tmp_path, pictures=b"", attributes=ATTRIBUTES_CSV, **options):
    home = tmp_path / "celeba"
    (home / "img_align_celeba").mkdir(parents=True, exist_ok=True)
    if pictures:
        (home / "img_align_celeba/000001.jpg").write_bytes(pictures)
    (home / "list_attr_celeba.csv").write_text(attributes, encoding="latin-1")
    return load_images("celeba", folder=tmp_path, **options)


def test_sentences_for_a_broken_celeba(tmp_path):
    with pytest.raises(InputError, match=r"obtain img_align_celeba.zip .* put both into .*celeba"):
        load_images("celeba", folder=tmp_path)
    with pytest.raises(InputError, match=r"no \.jpg"):
        celeba(tmp_path / "1")
    with pytest.raises(InputError, match=r"000001\.jpg of 'celeba' cannot be read"):
        celeba(tmp_path / "2", b"no image")
    with pytest.raises(InputError, match="150 x 150"):
        celeba(tmp_path / "3", jpeg("red", (150, 150)))
    with pytest.raises(InputError, match="fewer than 2 attributes"):
        celeba(tmp_path / "4", jpeg("red"), "image_id,Bald,Male\n000001.jpg,1\n")
    with pytest.raises(InputError, match="not a table of attributes"):
        celeba(tmp_path / "5", jpeg("red"), "image_id,Bald\n000001.jpg,yes\n")
    (tmp_path / "6/celeba/img_align_celeba/000002.jpg").mkdir(parents=True)
    with pytest.raises(InputError, match=r"000002\.jpg cannot be read as an image \(Is a dir"):
        celeba(tmp_path / "6")
    with pytest.raises(InputError, match="has no part 'test' here; load part='train'"):
        load_images("celeba", part="test", folder=tmp_path)


def test_an_attribute_row_without_an_image(tmp_path):
    sentence = r"has a row of attributes for 000003\.jpg, and .*img_align_celeba has no such image"
    with pytest.raises(InputError, match=sentence):
        celeba(tmp_path, jpeg("red"))
    assert len(celeba(tmp_path, jpeg("red"), limit=1).pixels) == 1


def test_a_corrupt_archive_of_images(tmp_path):
    home = tmp_path / "celeba"
    home.mkdir()
    with zipfile.ZipFile(home / "img_align_celeba.zip", "w") as archive:
        archive.writestr("img_align_celeba/000001.jpg", jpeg("red"))
    content = (home / "img_align_celeba.zip").read_bytes()
    (home / "img_align_celeba.zip").write_bytes(content[: len(content) // 2])
    (home / "list_attr_celeba.csv").write_text("image_id,Bald\n000001.jpg,1\n")
    with pytest.raises(InputError, match="is no zip archive that can be read; get it again"):
        load_images("celeba", folder=tmp_path)


def zipped(tmp_path, members, attributes=ATTRIBUTES_CSV, compression=zipfile.ZIP_STORED):
    """CelebA of an archive with such members."""
    home = tmp_path / "celeba"
    home.mkdir(parents=True)
    with zipfile.ZipFile(home / "img_align_celeba.zip", "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    (home / "list_attr_celeba.csv").write_text(attributes, encoding="utf-8")
    return home / "img_align_celeba.zip"


def test_a_corrupt_member_of_an_archive(tmp_path):
    path = zipped(tmp_path, {"000001.jpg": jpeg("red")}, compression=zipfile.ZIP_LZMA)
    content = bytearray(path.read_bytes())
    start = 30 + len("000001.jpg") + 9  # behind the headers of the member and of its compression
    content[start : start + 60] = bytes([255]) * 60
    path.write_bytes(content)
    with pytest.raises(InputError, match="is no zip archive that can be read; get it again"):
        load_images("celeba", folder=tmp_path)


def test_members_that_share_a_name_and_members_that_are_no_images(tmp_path):
    red = jpeg("red")
    zipped(tmp_path / "1", {"a/000001.jpg": red, "b/000001.JPG": red})
    for limit in (None, 1):
        with pytest.raises(InputError, match=r"zip has more than one image named '000001\.jpg'"):
            load_images("celeba", folder=tmp_path / "1", limit=limit)
    mac = {"__MACOSX/._000001.jpg": b"what a Mac puts there", "a/000001.JPG": red}
    zipped(tmp_path / "2", {**mac, "a/000003.jpg": red}, "\ufeff" + ATTRIBUTES_CSV)
    images = load_images("celeba", folder=tmp_path / "2")
    assert images.labels.tolist() == [[0, 1], [1, 1]]
    assert images.attributes == ("Bald", "Male")


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        (ATTRIBUTES_CSV + "000001.jpg,1,1\n", r"more than one row for '000001\.jpg'; keep one"),
        ("image_id,Bald,Bald\n000001.jpg,1,1\n", "more than one attribute named 'Bald'"),
        ("image_id\n000001.jpg\n", "has no attributes in its header"),
    ],
)
def test_attributes_that_are_there_twice_or_not_at_all(tmp_path, attributes, sentence):
    with pytest.raises(InputError, match=sentence):
        celeba(tmp_path, jpeg("red"), attributes)


def test_images_beyond_all_sizes_are_not_unpacked(tmp_path, monkeypatch):
    # As if so few pixels were too many, or nearly so.
    for most, size in ((100, "more than 200"), (150 * 140, "150 x 150")):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
        with pytest.raises(InputError, match=rf"000001\.jpg of 'celeba' is {size} pixels; give"):
            celeba(tmp_path, jpeg("red", (150, 150)))


@pytest.mark.parametrize(
    "attributes",
    ["", "\n", "2\n", "image_id,Bald\n000001.jpg,999\n", "image_id,Bald\n000001.jpg,\xe9\n"],
)
def test_attributes_that_are_none(tmp_path, attributes):
    with pytest.raises(InputError, match=r"list_attr_celeba\.csv is not a table of attributes"):
        celeba(tmp_path, jpeg("red"), attributes)


@pytest.mark.parametrize("limit", [-1, 0, 2**70, 1.5, True])
def test_a_limit_that_is_none(as_users_have_it, tmp_path, limit):
    with pytest.raises(InputError, match=rf"limit={limit} is no number of images; give an int"):
        celeba(tmp_path, jpeg("red"), limit=limit)
    with pytest.raises(InputError, match="is no number of images"):
        load_images("mnist", folder=tmp_path, limit=limit)


def test_a_limit_of_numpy_and_a_folder_that_is_none(as_users_have_it, tmp_path):
    attributes = "image_id,Bald\n000001.jpg,1\n"
    assert len(celeba(tmp_path, jpeg("red"), attributes, limit=np.int64(3)).pixels) == 1
    with pytest.raises(InputError, match="folder=3 is no folder; give its path"):
        load_images("mnist", folder=3)


def test_parts_that_there_are(as_users_have_it):
    with pytest.raises(InputError, match="no part 'valid' here; load part='train' or part='test'"):
        load_images("mnist", part="valid")


def test_idx_of_two_dimensions():
    content = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6))
    assert parse_idx(content).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\x0d\x01\0\0\0\x01\0\0\0\0",  # floats
        bytes([0, 0, 8, 1, 0, 0, 0, 3]) + b"ab",
        bytes([0, 0, 8, 1, 0, 0, 0, 3]) + b"abcd",
        bytes([0, 0, 8, 3, 0, 0, 0, 3]),
        bytes([0, 0, 8, 2, 0, 0, 0, 3, 0]),
        bytes([0, 0, 8, 4, *[0, 1, 0, 0] * 4]),  # of 2 to the power 64, which is 0 in 64 bits
        bytes([0, 0, 8, 5, *[255] * 16, 0, 0, 0, 0]),
        bytes([0, 0, 8, 65, *[0, 0, 0, 1] * 65, 7]),
    ],
)
def test_broken_idx(content):
    with pytest.raises(InputError, match="idx"):
        parse_idx(content)


def test_a_table_is_no_image_set():
    with pytest.raises(InputError, match="'yacht' is a table"):
        load_images("yacht")
