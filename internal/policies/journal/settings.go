package journal

import "fmt"

// Settings is the stanza "policy.decisionLog".
type Settings struct {
	// path is the file to append to, a decision of JSON a line. Only its owner can
	// read a file that the server creates. "certplane policy replay --from-log"
	// decides again about its requests. Default: none, no log.
	Path string `json:"path,omitempty"`
	// maxSize is how large the file may grow, in megabytes, before it is renamed
	// and a new one is started. 0 never renames it. Default: 100.
	MaxSize int `json:"maxSize"`
	// maxBackups is how many renamed files are kept. 0 keeps all. Default: 5.
	MaxBackups int `json:"maxBackups"`
	// facts says whether the log has the objects that policies have read, such as
	// Namespaces and pods (Full), or only their names (None). A replay takes what
	// the log does not have from today's. Default: Full.
	Facts Facts `json:"facts"`
	// names says whether the log has requests, and the names of requesters and of
	// those who approve (Full). With Hashed it has the SHA-256 digests of names,
	// and no requests: they cannot be replayed. Who guesses a name can verify the
	// guess. Default: Full.
	Names Names `json:"names"`
}

// Facts is how the log records facts.
type Facts string

// What the log has of facts.
const (
	FactsFull Facts = "Full"
	FactsNone Facts = "None"
)

// Names is how the log records names.
type Names string

// How the log has names.
const (
	NamesFull   Names = "Full"
	NamesHashed Names = "Hashed"
)

// DefaultSettings returns the defaults: no log.
func DefaultSettings() Settings {
	return Settings{MaxSize: 100, MaxBackups: 5, Facts: FactsFull, Names: NamesFull}
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s Settings) Validate() error {
	switch {
	case s.MaxSize < 0:
		return fmt.Errorf("policy.decisionLog.maxSize: %d must not be negative", s.MaxSize)
	case s.MaxBackups < 0:
		return fmt.Errorf("policy.decisionLog.maxBackups: %d must not be negative", s.MaxBackups)
	case s.Facts != FactsFull && s.Facts != FactsNone:
		return fmt.Errorf("policy.decisionLog.facts: %q must be Full or None", s.Facts)
	case s.Names != NamesFull && s.Names != NamesHashed:
		return fmt.Errorf("policy.decisionLog.names: %q must be Full or Hashed", s.Names)
	}
	return nil
}
