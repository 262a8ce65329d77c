"""Makes DOCX, ODT and EPUB files."""

import zipfile
from io import BytesIO

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
OASIS = "urn:oasis:names:tc:opendocument:xmlns"
_ODT_SPACES = f' xmlns:fo="{OASIS}:xsl-fo-compatible:1.0"' + "".join(
    f' xmlns:{name}="{OASIS}:{name}:1.0"' for name in ("office", "text", "table", "style", "draw")
)


def archive(parts):
    """A ZIP archive of texts or bytes by name, the first one uncompressed."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in parts.items():
            packed.writestr(name, content, None if packed.filelist else zipfile.ZIP_STORED)
    return file.getvalue()


def docx(body, styles="", numbering="", footnotes="", **more):
    """A Word document with the content of its body and, if given, of its other parts."""
    contents = {"styles": styles, "numbering": numbering, "footnotes": footnotes}
    given = {name: content for name, content in contents.items() if content}
    relations = "".join(
        f'<Relationship Id="{name}" Type="{OFFICE}/{name}" Target="{name}.xml"/>' for name in given
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">'
        '<Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r" '
        f'Type="{OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
        f"{relations}</Relationships>",
        "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
    }
    for name, content in given.items():
        parts[f"word/{name}.xml"] = f'<w:{name} xmlns:w="{WORD}">{content}</w:{name}>'
    return archive(parts | more)


def odt(text, styles="", **more):
    """An OpenDocument text with the content of its text and its styles."""
    content = (
        f"<office:document-content{_ODT_SPACES}><office:automatic-styles>{styles}"
        f"</office:automatic-styles><office:body><office:text>{text}</office:text></office:body>"
        "</office:document-content>"
    )
    parts = {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content}
    return archive(parts | more)


def flat_odt(text):
    """The same in one file."""
    return (
        f"<office:document{_ODT_SPACES}><office:body><office:text>{text}</office:text>"
        "</office:body></office:document>"
    ).encode()


def epub(pages, contents="", ncx="", title="A Book", **more):
    """A book with pages by name, the list items of its contents, or the points of an older one."""
    names = [*pages, *(["nav.xhtml"] if contents else [])]
    items = "".join(
        f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"'
        f"{' properties=' + chr(34) + 'nav' + chr(34) if name == 'nav.xhtml' else ''}/>"
        for name in names
    )
    items += '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>' if ncx else ""
    spine = "".join(f'<itemref idref="{name}"/>' for name in sorted(names))
    parts = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:'
        'container"><rootfiles><rootfile full-path="EPUB/book.opf"/></rootfiles></container>',
        "EPUB/book.opf": '<package xmlns="http://www.idpf.org/2007/opf">'
        f'<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title>'
        f"</metadata><manifest>{items}</manifest><spine>{spine}</spine></package>",
    }
    parts |= {f"EPUB/{name}": page(body) for name, body in pages.items()}
    if contents:
        parts["EPUB/nav.xhtml"] = page(f'<nav epub:type="toc"><ol>{contents}</ol></nav>')
    if ncx:
        parts["EPUB/toc.ncx"] = (
            f'<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap>{ncx}</navMap></ncx>'
        )
    return archive(parts | more)


def page(body):
    """A page of a book, whose title is that of the whole book, as is often so."""
    return (
        '<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml" '
        'xmlns:epub="http://www.idpf.org/2007/ops"><head><title>A Book</title></head>'
        f"<body>{body}</body></html>"
    )
