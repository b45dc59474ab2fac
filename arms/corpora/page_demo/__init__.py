"""A corpus of PDF pages, made at run time from a seed, over which no single arm is best.

Made-up organisations publish reports and slides: running text, tables, charts that are pictures,
and scanned papers without a text layer. Each organisation has facts of four families, and each
family has a kind of page where it usually stands, as in real archives:

=========  ===========================================  ======================================
family     e.g.                                         usual page (share), else
=========  ===========================================  ======================================
figures    market share, emissions, year by year        ``chart`` (90 %), ``table``, ``text``
records    price or supplier of the item KV-48213       ``table`` (90 %), ``scan``
reasons    why a plant opened late, a bid was refused   ``text`` (90 %), ``scan`` (minutes)
paperwork  rent in a lease, a notary's name             ``scan`` (90 %), ``text``
=========  ===========================================  ======================================

What is fair in it, and what a router can learn:

- Every question is one of thirty frames, such as "What was the {what} of {whom} in {year}?", and
  all families and page kinds share the frames. No word of a frame says where the answer stands.
- What remains is what the question is *about*, and that is a tendency, never a rule: about one
  fact in ten stands on another kind of page than its family's usual one.
- An organisation, with all its pages, is asked about in one of five styles; a style has frames and
  phrasings of its own. A style is a ``split_group``: the test part's frames, phrasings,
  organisations and pages occur in no training question. So a router has to carry over meaning
  ("power consumption" is a figure as "electricity demand" is), and TF-IDF, which stands beside it
  in the report, shows how far words alone go.
- Items are asked about by their code. That a question holds a code is visible in its words, in
  life as here; codes stand on scans too.
- Nothing is made worse on purpose. Running text is as long as report pages are, names its
  organisation as texts do, and is drawn in a clean font; scans are slightly tilted and noisy, as
  scans are. Chart slides and scans hold no word of what they show in their text layer, because
  that is what a picture is; file names and titles are neutral.
- A question has one relevant page: no other page states its fact. Each fact is asked about twice,
  in two frames and phrasings, so intervals that count questions are a little too narrow.
"""
