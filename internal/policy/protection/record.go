package protection

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/policy/quorum"
)

// Record is a sealed proposal: the user, the specification wanted, and the
// specification it replaces.
type Record struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	// UID is the UID of the object. It is empty if the proposal was the creation of the
	// object, which had no UID yet.
	UID string `json:"uid,omitempty"`
	// Generation is the generation of the object. Stored is the digest of the stored
	// specification, Wanted the digest of the written one.
	Generation int64  `json:"generation"`
	Stored     string `json:"stored"`
	Wanted     string `json:"wanted"`
	// Changes are the fields below spec that differ, for people.
	Changes []string `json:"changes,omitempty"`
	// User and UserUID are the writer's. The record keeps only the groups and extra
	// values that policies named then.
	User    string              `json:"user"`
	UserUID string              `json:"userUID,omitempty"`
	Groups  []string            `json:"groups,omitempty"`
	Extra   map[string][]string `json:"extra,omitempty"`
	// Time is the time of the write, to the second. From Expires on, the proposal
	// counts for no policy.
	Time    time.Time `json:"time"`
	Expires time.Time `json:"expires"`
	// Policies are the policies that required people.
	Policies []quorum.RecordedPolicy `json:"policies,omitempty"`
}

// OpenFunc opens a sealed record, like Open with the keys of the server.
type OpenFunc func(text string) (Record, error)

// SealFunc seals a record, like Seal with the key of the server.
type SealFunc func(Record) (string, error)

// sealDomain distinguishes proposals from other records that the key seals.
const sealDomain = "certplane.dev/proposal\x00"

// Seal returns a sealed record.
func Seal(key crypto.Signer, r Record) (string, error) {
	return quorum.SealText(key, sealDomain, r)
}

// Open returns the record in a sealed text whose signature one of the keys
// verifies.
func Open(keys []ed25519.PublicKey, text string) (Record, error) {
	return quorum.OpenText[Record](keys, sealDomain, text)
}

// vote returns the proposal as a vote for the specification.
func (r Record) vote() quorum.Vote {
	return quorum.Vote{Username: r.User, UID: r.UserUID, Groups: r.Groups, Extra: r.Extra, Time: r.Time}
}

// isOf reports whether the proposal is a user's.
func (r Record) isOf(p quorum.Person) bool { return r.User == p.Username && r.UserUID == p.UID }

// checkFor returns an error unless the proposal would change this object as it is
// stored, and counts at the time now.
func (r Record) checkFor(kind Kind, o *Object, now time.Time) error {
	switch {
	case r.Kind != kind || r.Name != o.Name:
		return fmt.Errorf("the proposal is about %s %s", r.Kind, r.Name)
	case r.UID != o.UID && r.UID != "":
		return errors.New("the proposal is about an earlier object of this name")
	case r.UID == "" && r.Time.Sub(o.Created).Abs() > quorum.ClockSkew:
		return errors.New("the proposal is the creation of an earlier object of this name")
	case r.Generation != o.Generation || r.Stored != digest(o.Spec):
		return errors.New("the object has changed since the proposal")
	case r.User == "" || r.Time.IsZero():
		return errors.New("the proposal has no user or time")
	case !now.Before(r.Expires):
		return errors.New("the proposal has expired")
	default:
		return nil
	}
}

// digest returns the digest of a specification. Keys of maps are sorted.
func digest(spec map[string]any) string {
	// A value decoded from JSON can be encoded.
	data, _ := json.Marshal(spec)
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// proposal is a record in the annotation of an object.
type proposal struct {
	text string
	Record
}

// proposals returns the proposals that count.
func proposals(kind Kind, o *Object, open OpenFunc, now time.Time) []proposal {
	var counting []proposal
	for _, text := range sealedIn(o.Proposals) {
		if r, err := open(text); err == nil && r.checkFor(kind, o, now) == nil {
			counting = append(counting, proposal{text, r})
		}
	}
	return counting
}

// wanting returns the proposals of a specification.
func wanting(all []proposal, wanted string) []proposal {
	return slices.DeleteFunc(slices.Clone(all), func(p proposal) bool { return p.Wanted != wanted })
}

// sealedIn returns the sealed records in the value of an annotation; none if the value
// cannot be read.
func sealedIn(annotation string) []string {
	var texts []string
	if annotation == "" || json.Unmarshal([]byte(annotation), &texts) != nil {
		return nil
	}
	return texts
}

// annotation returns the value of an annotation with sealed records.
func annotation(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	data, _ := json.Marshal(texts) // strings can be encoded
	return string(data)
}

// maxChanges is how many changed fields a record names.
const maxChanges = 6

// changes returns the paths of the fields that differ, sorted. Lists are compared
// as a whole.
func changes(old, now map[string]any) []string {
	var paths []string
	compare("", old, now, &paths)
	slices.Sort(paths)
	if len(paths) > maxChanges {
		paths = append(paths[:maxChanges-1:maxChanges-1], fmt.Sprintf("%d others", len(paths)-maxChanges+1))
	}
	return paths
}

func compare(prefix string, old, now map[string]any, paths *[]string) {
	for name := range both(old, now) {
		a, b := old[name], now[name]
		below, isMap := a.(map[string]any)
		belowNow, isMapNow := b.(map[string]any)
		switch {
		case reflect.DeepEqual(a, b):
		case isMap && isMapNow:
			compare(prefix+name+".", below, belowNow, paths)
		default:
			*paths = append(*paths, prefix+name)
		}
	}
}

// both returns the keys of two maps.
func both(a, b map[string]any) map[string]bool {
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	return keys
}
