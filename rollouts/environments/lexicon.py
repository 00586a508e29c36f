"""The words that ``recall`` writes with. Every key is one word, and no word is a key of two kinds of fact."""

from __future__ import annotations

from dataclasses import dataclass

PEOPLE = """ada alan amos anna arlo bella boris carla cesar clara colin dana denis diego dora edgar elena
elias emma ezra fanny felix fiona frank gemma george gina gregor greta hanna harold hector helga henry hugo
ida igor irene isaac ivan jasper joan jonas julia kara karl keith kira lars laura leo lena linda louis lucas
lydia marco marta morris mila mona nadia nathan nina noah nora olaf olga oscar otto paula pedro petra quinn
ralf rita robin rosa ruben sara simon sonia stefan susan tara theo tina tobias ursula vera victor walter wendy
xenia yusuf zelda""".split()
PLACES = """accra amman athens baku bergen berlin bern bilbao bogota bonn boston bremen bruges cairo calais
cardiff chicago cork cuzco dakar dallas delhi denver dover dublin essen florence geneva genoa ghent glasgow
graz hamburg hanoi havana helsinki jaipur kyoto lagos leeds leipzig lima lisbon london lyon madrid malmo
manila milan minsk mumbai munich nairobi naples nice odense osaka oslo ottawa oxford paris perth pisa porto
prague quito reims riga rome seoul seville sofia split sydney tallinn tampere tokyo trieste tromso tunis turin
utrecht valencia venice vienna warsaw york zagreb""".split()
OBJECTS = """anchor apron axe banner barrel basket bell blanket bottle bowl box bracelet bridle broom brush
bucket buckle candle cane carpet cart chair chest clock cloak coat comb compass crate cup dagger desk drum fan
fiddle flag flute hammer harp hat helmet jar jug kettle knife ladder lamp lantern letter lock loom map mask
mirror needle oar pan pearl pencil piano pillow pipe plate plough pot purse quilt rake ring rope saddle sail
scarf shovel spoon stool sword table tent thimble trumpet trunk umbrella vase violin wagon wheel whistle""".split()
OWNERS = """actor admiral baker banker barber bishop brewer builder butcher captain carpenter carter chemist
clerk cobbler cook cooper dancer dentist doctor driver duchess duke dyer farmer fisher gardener general
glazier grocer guard hatter herald hermit hunter jailer jeweller joiner judge juggler king knight lawyer mason
mayor merchant midwife miller miner monk nurse painter parson pilot piper plumber poet porter potter priest
prince printer queen roofer saddler sailor scholar sculptor sheriff singer smith soldier surgeon tailor tanner
teacher tinker usher valet weaver""".split()
GOODS = """almonds apples bacon barley beans beer berries bread butter cabbage candy carrots cheese cherries
chicken cider cinnamon coal coffee cotton cream dates eggs figs flour garlic ginger grapes ham hay herbs honey
lard leather lemons lentils linen malt melons milk mustard nails nutmeg nuts oats oil olives onions oranges
paper parsley peaches pears peas pepper plums potatoes raisins rice rye salt sand seeds silk soap spinach
sugar syrup tar tea thyme tiles tobacco tomatoes turnips vanilla vinegar walnuts wax wheat wine wool yarn""".split()

FILLER = """the morning was grey and quiet
rain fell on the roofs until noon
a dog barked somewhere behind the wall
the road ran straight along the river
nobody remembered who had built the bridge
the bells could be heard from far away
it was too early for the market
the old gate stood open all night
smoke rose slowly from the chimneys
the fields beyond the mill were empty
a cold wind came down from the hills
the children had already gone home
there was little to do that week
the harbour smelled of fish and smoke
every window in the street was dark
the snow had melted by the evening""".split("\n")


@dataclass(frozen=True)
class FactKind:
    """One kind of fact.

    Attributes:
        keys: What it is about; one word each.
        values: What it says.
        tiny: How the tiny policy's pages say it, as telegrams do; fields ``{key}`` and ``{value}``.
        prose: How pages for a pretrained policy say it, several ways.
        question: Asks for the value.
        prose_question: The same question in prose.
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]
    tiny: str
    prose: tuple[str, ...]
    question: str
    prose_question: str


KINDS = {
    "place": FactKind(
        tuple(PEOPLE),
        tuple(PLACES),
        "{key} {value}",
        ("{Key} is in {Value}.", "{Key} lives in {Value}.", "{Key} can be found in {Value}."),
        "where is {key} ?",
        "Where is {Key}?",
    ),
    "owner": FactKind(
        tuple(OBJECTS),
        tuple(OWNERS),
        "{key} {value}",
        ("The {key} belongs to the {value}.", "The {key} is owned by the {value}."),
        "who owns {key} ?",
        "Who owns the {key}?",
    ),
    "price": FactKind(
        tuple(GOODS),
        tuple(str(price) for price in range(10, 100)),
        "{key} {value}",
        ("A sack of {key} costs {value} coins.", "The price of a sack of {key} is {value} coins."),
        "how much is {key} ?",
        "How many coins does a sack of {key} cost?",
    ),
}
