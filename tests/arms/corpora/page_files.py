"""Small PDFs and pictures for tests, good and bad, written byte by byte."""

import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

WIDTH, HEIGHT = 400, 500


def write_picture(path: Path, size=(40, 30), mode="RGB", colour=None, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, 0 if colour is None else colour).save(path, **options)
    return path


def words(*lines: str, left=40, top=HEIGHT - 60, size=12) -> bytes:
    """A content stream that writes lines of text."""
    shown = " T* ".join(f"({line}) Tj" for line in lines)
    return f"BT /F1 {size} Tf {size * 1.2} TL {left} {top} Td {shown} ET\n".encode()


def image(left: float, bottom: float, width: float, height: float) -> bytes:
    """A content stream that draws the page's picture in a rectangle."""
    return f"q {width} 0 0 {height} {left} {bottom} cm /Im1 Do Q\n".encode()


def pdf_bytes(pages: Sequence[bytes], box=(0, 0, WIDTH, HEIGHT), extra="", trailer="") -> bytes:
    """A PDF with one page per content stream; ``extra`` goes into each page's dictionary."""
    picture = Image.new("RGB", (8, 8), (200, 30, 30)).tobytes()
    stem = (
        f"<< /Type /XObject /Subtype /Image /Width 8 /Height 8 /BitsPerComponent 8 "
        f"/ColorSpace /DeviceRGB /Length {len(picture)} >>"
    )
    kids = " ".join(f"{5 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        stem.encode() + b"\nstream\n" + picture + b"\nendstream",
    ]
    resources = "<< /Font << /F1 3 0 R >> /XObject << /Im1 4 0 R >> >>"
    for number, content in enumerate(pages):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [{' '.join(map(str, box))}] {extra} "
            f"/Resources {resources} /Contents {6 + 2 * number} 0 R >>".encode()
        )
        objects.append(
            f"<< /Length {len(content)} >>\nstream\n".encode() + content + b"\nendstream"
        )
    return _with_table(objects, trailer)


def form(content: bytes, inner: bytes, matrix: str) -> bytes:
    """A PDF of one page that draws the form ``/Fm1``, which draws ``inner``."""
    whole = pdf_bytes([content, inner])
    head = (
        f"<< /Type /XObject /Subtype /Form /BBox [0 0 1000 1000] /Matrix [{matrix}] "
        "/Resources << /XObject << /Im1 4 0 R >> >> "
    ).encode()
    length = f"<< /Length {len(inner)} >>".encode()
    begin = whole.index(b"8 0 obj")
    body = whole[begin:].replace(length, head + length[3:], 1)
    body = body[: body.index(b"xref")]
    page = whole[:begin].replace(b"/XObject << /Im1 4 0 R >>", b"/XObject << /Fm1 8 0 R >>", 1)
    page = page.replace(b"[5 0 R 7 0 R] /Count 2", b"[5 0 R] /Count 1")
    return page + body + b"trailer\n<< /Size 9 /Root 1 0 R >>\n%%EOF\n"


def _with_table(objects: Sequence[bytes], trailer: str) -> bytes:
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, 2)
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(out.tell())
        out.write(f"{number} 0 obj\n".encode() + body + b"\nendobj\n")
    start = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    out.writelines(f"{place:010d} 00000 n \n".encode() for place in places)
    out.write(f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R {trailer} >>\n".encode())
    out.write(f"startxref\n{start}\n%%EOF\n".encode())
    return out.getvalue()


def write_pdf(path: Path, *pages: bytes, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pdf_bytes(pages, **options))
    return path


def encrypted_pdf() -> bytes:
    """A PDF whose password is not the empty one."""
    lock = (
        f"/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <{'41' * 32}> /U <{'42' * 32}> >> "
        f"/ID [<{'00' * 16}> <{'00' * 16}>]"
    )
    return pdf_bytes([words("secret")], trailer=lock)


BAD_PDFS = {
    "encrypted.pdf": (encrypted_pdf(), "encrypted_pdf", "is encrypted; save it without a password"),
    "truncated.pdf": (
        pdf_bytes([words("one"), words("two")])[:900],
        "truncated_pdf",
        "stops after 900 bytes without PDF's end mark",
    ),
    "no pages.pdf": (pdf_bytes([]), "pdf_without_pages", "has no page"),
    "nothing.pdf": (b"", "empty_file", "has 0 bytes"),
    "letter.pdf": (b"Dear reader, ...\n", "not_a_pdf", "is no PDF: it begins with b'Dear rea'"),
    "damaged.pdf": (b"%PDF-1.4\ngarbage\n%%EOF\n", "damaged_pdf", "Failed to load document"),
}
"""File name → content, kind of problem, and how the reason begins."""


def write_bad_pdfs(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (content, _, _) in BAD_PDFS.items():
        (folder / name).write_bytes(content)
