package main

// rules are the sentences of the protocol that look as if one could do without.
// Not among them, because nothing was found without: that a client believes
// nothing live of another log (the base rises, and what is named as the id before
// is then above what it heard), which it does all the same; and that an id beyond
// the end is held against the log's head, where a resume waits for it anyway.
var rules = map[string]string{
	"lost":           "what a policy's selector was is kept, for the window",
	"former":         "what a node's labels were is kept, for the window",
	"withdrawn":      "what a node's set of artifacts had is kept, for the window",
	"withdrawn-away": "also where the node was not there when it was withdrawn",
	"window":         "a client from before the window is asked to pull",
	"window-edge":    "an id of the last event whose past was dropped is before the window, too: it may stand inside that event",
	"node-since":     "a row's id is the later of its policy's and its node's last change",
	"set-since":      "an artifact's id is of the last change of the whole set: its place means something in that set only",
	"number":         "the low bits of an id are the policy's number in the log, not its place among what changed",
	"revision-at":    "a row is sent with the revision that was the head at its id, not with the head of now",

	"base":           "a new log's base is above every id of the one before",
	"base-edge":      "above its place, too: an id of the new base itself would be one of this log's beginning",
	"base-beyond":    "and above what is known of them by a margin: who was killed had sent more",
	"rebase":         "a log that lost its tail gets a higher base",
	"restore":        "a log that was put back from a backup gets a higher base, or nobody learns what went back",
	"restore-clock":  "above the present of the clock that bases are counted by, which passes all ids of a log that is not faster",
	"restore-beyond": "and above the log's own end by a margin, for a log that was faster",
	"restore-again":  "and by the backup's age: who puts one backup back twice does not get one base twice",
	"restore-known":  "and above what the witness knows, where that did not go back",
	"mark-base":      "a mark names the base: that of what went back with a restore is not believed",

	"head-followed": "the end of the log is believed of a leader that a majority still follows: one that was replaced does not know what came after",
	"own-history":   "a worker answers once it knows that the log's history is the one that it folded",
	"pull-low":      "who comes with an id of another log begins anew, below every row",
	"pull-same":     "who comes from before the window keeps its place: the message to pull has its own id",
	"heed":          "a client heeds the message to pull whatever its id",
	"resume-fresh":  "a stream hears nothing live before the fold has reached the log's head as it was when the client came, and then what it missed: a worker ahead may have sent a part of its answer, in which a row that nobody is sent live had a higher id",
	"one-moment":    "the past is read and the live edges are joined at one cursor",
	"gone-pull":     "a stream that was not sent what took its rows away, because its node is gone, must pull",
	"overflow":      "a hub that dropped what it held resumes its streams",
	"tail":          "a queue conflates at its tail",
	"pull-fresh":    "a pull is answered from a fold that has reached the log's head as it was on arrival",

	"table-resume": "a resume says once that the table may have changed",
	"table-inside": "who resumes from an artifact's id is notified that its table may have changed: nobody fetches a table for an artifact, and what was not looked at before it was sent is above no id",

	"table-look":    "a message about a table has the id of the end of the sequence that was looked at, and waits until all up to there was sent",
	"table-between": "a look sees that a table changed and changed back: the node may have fetched it in between",

	"confirmed":      "a client on a lossy subject asks after what answers confirmed, not after the last it heard",
	"late":           "what an answer brings late, below what the client has received already and other than it, makes it pull",
	"ask-fresh":      "a question is answered from a fold that has reached the log's head as it was on arrival",
	"not-found-head": "and so is that there is no such node",
	"prev":           "a message names the id before it; a client that has not come that far asks",

	"mark":             "the mark in a lease is not above the last look at the tables",
	"mark-start":       "a new publisher starts at the mark of the one before",
	"mark-window":      "and from before its window, or of another log, tells every node to pull",
	"mark-absent":      "and a node that is not there: it asks, and hears so; what it lost is not known once it is back",
	"interest-start":   "a publisher that has just begun takes every node for one that somebody listens to",
	"interest-catchup": "a publisher that learns that somebody listens tells what followed the id in the question",

	"notice":      "the notice of a new key comes before the first frame that it signed",
	"notice-asks": "a client that does not know the key of a message asks",
}

var without = map[string]bool{}

func off(rule string) bool { return without[rule] }
