"""What breaks on a narrow page in a browser: words that a line cuts inside, and a page wider than its window."""

from typing import Final

from playwright.sync_api import Page

NARROW: Final = ((360, 780), (390, 844))
"""Windows of phones: the narrowest that is still common, and the usual one [CSS pixels]."""
_OPEN = "document.querySelectorAll('details').forEach(each => { each.open = true })"
_WIDER = "document.documentElement.scrollWidth - innerWidth"
# Words of letters, and the short heads of Japanese columns, that stand on more than one line. Parts of a compound
# such as adult-tables or table:sex are words of their own; addresses, digests and names of files may be cut.
_CUT = r"""() => {
  const found = [], range = document.createRange();
  const lines = (node, begin, end) => {
    range.setStart(node, begin); range.setEnd(node, end);
    return new Set([...range.getClientRects()].filter((box) => box.width > 0).map((box) => Math.round(box.top))).size;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.parentElement.closest('svg, script, style')) continue;
    for (const token of node.data.matchAll(/\S+/g)) {
      if (/[\d@_]|\.\p{L}|\/\//u.test(token[0])) continue;
      for (const word of token[0].matchAll(/[\p{Script=Latin}]{2,}/gu)) {
        const begin = token.index + word.index;
        if (lines(node, begin, begin + word[0].length) > 1) found.push(word[0]);
      }
    }
    for (const word of node.parentElement.closest('th') ? node.data.matchAll(/[\p{Script=Han}]{2,6}/gu) : [])
      if (lines(node, word.index, word.index + word[0].length) > 1) found.push(word[0]);
  }
  return found;
}"""


def broken_on(page: Page) -> list[str]:
    """Say what a narrow window breaks on a page."""
    wider = [page.evaluate(_WIDER)]
    page.evaluate(_OPEN)
    wider.append(page.evaluate(_WIDER))
    return [*page.evaluate(_CUT), *(f"{excess} px wider than the window" for excess in wider if excess > 0)]
