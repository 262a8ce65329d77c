"""Abbreviations of languages after which the library that splits sentences ends them wrongly.

It knows more: those that it knows, and hence nearly all of pysbd's, are not repeated here.
"""

BEFORE_NAMES = {  # and before any other word, unless it is a number's: 1950 r. Potem
    "ar": "د. أ. أ.د. ا.د. ص.ب.",
    "es": "cía. cmte. ctra. d. doña. dña. dª. excma. fr. ilma. ilmo. pl. profa.",
    "hi": "डॉ. प्रो. श्री. पं. कु. स्व. मो. ले. कै. इं.",
    "hu": "br. gr. ifj. kb. ld. özv. szt. ún. vö.",
    "it": "arch. avv. gent. geom. ing. rag.",
    "nl": "d.w.z. ds. excl. incl. jhr. mevr. mw. o.a.",
    "pl": "al. dr. gen. hab. im. inż. kpt. ks. m.in. mgr. os. pl. płk. por. proc. r. red. św. tj. "
    "tzw. w. wg. woj. zob.",
    "pt": "aprox. arq. av. cap. cel. d. dep. exma. fr. gov. ilma. ilmo. pe. pç. profa. r. srta.",
    "ru": "бул. доц. зам. им. инж. наб. напр. обл. оз. пл. пос. св. ср. т.е.",
    "sv": "ang. dvs. enl. exkl. inkl. jfr. kapt. resp. t.ex.",
    "tr": "alb. av. bkz. blv. cad. doç. hz. mah. müh. öğr. örn. sk. sn. sok. uzm. yrd. yzb.",
}
BEFORE_NUMBERS = {
    "ar": "ص. ج. ط. ت. رقم.",
    "es": "arts. caps. figs. inc. n. nro. núms. sec. t. tab.",
    "hi": "पृ. सं. क्र. भा. धा. खं. रु. नं.",
    "hu": "bek. fej. kk. köt. old. sz. szül. tel.",
    "it": "capp. figg. n. nn. num. pag. pagg. sez. tab.",
    "nl": "afb. dd. par. tab. tel.",
    "pl": "art. godz. nr. ok. par. pkt. poz. rozdz. rys. s. str. t. tab. tel. ust. wyd.",
    "pt": "arts. cap. figs. inc. km. n. nº. núm. p. pág. págs. par. pp. séc. t. tab. tel. vol.",
    "ru": "абз. вып. гл. изд. корп. разд. рис. ст. табл. №.",
    "sv": "avs. bd. bil. kap. kl. mom. sid. tab. tel. vol.",
    "tr": "apt. bl. kat. m.ö. m.s. ss. şek. tab. tel. yy.",
}
ORDINALS = frozenset(
    (
        *("cs", "da", "de", "et", "fi", "hr", "hu", "is", "lv", "nb", "nn", "no", "pl", "sk", "sl"),
        *("sr", "tr"),
    )
)
"""Languages that write ordinal numbers with a full stop: a 12. fejezet, 19. yüzyıl."""
WORDS = frozenset(  # of English, which the library takes for abbreviations
    ["May", "no", "art", "sat", "sun", "ill", "miss", "wash", "ore", "in", "mass", "bull", "park"]
)
