"""Abbreviations of languages after which the library that splits sentences ends them wrongly."""

BEFORE_NAMES = {  # and before any other word, unless a number precedes them: 1950 г. Потом
    "ar": "د. أ. أ.د. ا.د. م. ص.ب.",
    "es": "av. avda. arq. cap. cía. cmte. ctra. d. dn. doña. dña. dr. dra. dª. ej. excma. "
    "excmo. fr. gral. ilma. ilmo. ing. lic. p.ej. pl. prof. profa. pza. sr. sra. sres. srta. "
    "sta. sto. ud. uds.",
    "hi": "डॉ. प्रो. श्री. पं. कु. स्व. मो. ले. कै. इं.",
    "hu": "br. dr. gr. id. ifj. ill. kb. ld. özv. pl. prof. szt. ún. vö.",
    "it": "arch. avv. cfr. col. dott. dott.ssa egr. es. gen. gent. geom. ing. mons. on. p.es. "
    "prof. prof.ssa rag. sen. sig. sig.na sig.ra sigg. spett.",
    "nl": "bijv. ca. d.w.z. dhr. drs. ds. evt. excl. i.p.v. i.v.m. incl. ing. ir. jhr. m.b.t. "
    "m.n. mevr. mr. mw. o.a. o.l.v. prof. resp. st. t.a.v. t.o.v. vgl. zgn.",
    "pl": "al. dr. gen. hab. im. inż. kpt. ks. m.in. mgr. np. os. pl. płk. por. prof. red. św. "
    "tj. tzn. tzw. ul. wg. woj. zob.",
    "pt": "aprox. arq. av. cap. cel. d. dep. dr. dra. eng. ex. exma. exmo. fr. gen. gov. ilma. "
    "ilmo. p.ex. pe. pç. prof. profa. r. sen. sr. sra. srs. srta.",
    "ru": "акад. бул. г. гр. доц. зам. им. инж. канд. наб. напр. о. обл. оз. пер. пл. пос. "
    "просп. проф. св. см. ср. т.е. т.к. т.н. тов. ул.",
    "sv": "ang. bl.a. ca. d.v.s. dr. dvs. enl. exkl. f.d. fr.o.m. inkl. jfr. kapt. p.g.a. prof. "
    "resp. s.k. st. t.ex. t.o.m.",
    "tr": "alb. av. bkz. blv. cad. doç. dr. gen. hz. mah. müh. ord. öğr. örn. prof. sk. sn. "
    "sok. uzm. yrd. yzb.",
}
BEFORE_NUMBERS = {
    "ar": "ص. ج. ط. ت. رقم.",
    "es": "apdo. art. arts. av. c. cap. caps. fig. figs. inc. km. n. nro. núm. núms. pág. págs. "
    "párr. s. sec. t. tab. tel. tfno. vol.",
    "hi": "पृ. सं. क्र. भा. धा. खं. रु. नं.",
    "hu": "bek. fej. kk. köt. o. old. sz. szül. tel. u.",
    "it": "all. art. artt. ca. cap. capp. ed. fig. figg. lett. n. nn. num. p. pag. pagg. par. "
    "pp. sez. tab. tel. vol. voll.",
    "nl": "afb. afl. art. blz. dd. fig. hfst. jl. max. min. nr. p. par. tab. tel. vol.",
    "pl": "art. godz. lit. nr. ok. par. pkt. poz. rozdz. rys. s. str. t. tab. tel. ust. wyd.",
    "pt": "art. arts. cap. fig. figs. inc. km. n. nº. núm. p. pág. págs. par. pp. séc. t. tab. "
    "tel. vol.",
    "ru": "абз. вып. гл. д. изд. кв. корп. н. п. пп. разд. рис. с. ст. стр. т. табл. тел. ч. №.",
    "sv": "art. avs. bd. bil. fig. kap. kl. mom. nr. s. sid. tab. tel. vol.",
    "tr": "apt. bl. c. d. kat. m. md. no. s. ss. şek. tab. tel. yy.",
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
