package keep

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/certplane/certplane/internal/agent/credential"
	"github.com/certplane/certplane/internal/agent/objects"
)

var (
	// errUnregistered is the error of sources that need the pod in the API.
	errUnregistered = errors.New("the pod is not registered yet")
	// errAway stands for all ways in which the server is away. Which it is, the
	// status tells once, and not for each pod.
	errAway = errors.New("the server does not answer")
)

// explain returns what the status says of an error, and whether that is no
// refusal, but goes by itself.
func explain(err error) (text string, waiting bool) {
	if away := (*url.Error)(nil); errors.As(err, &away) {
		err = errAway
	}
	return err.Error(), errors.Is(err, errAway) || errors.Is(err, errUnregistered) || errors.Is(err, objects.ErrUnknown)
}

// signerPatience is how long signers that work take at most.
const signerPatience = 10 * time.Second

// unanswered says what a first certificate waits for, whether that goes by
// itself, and when to look again. A node may not know which signers there are;
// explain does, if its reader may.
func unanswered(record credential.Record, signer, namespace string, now time.Time) (text string, waiting bool, wake time.Time) {
	pending := record.Pending
	if pending == nil || pending.SentAt.IsZero() {
		return "not issued yet", true, time.Time{}
	}
	if patient := pending.SentAt.Add(signerPatience); now.Before(patient) {
		return "not issued yet", true, patient
	}
	return fmt.Sprintf("not issued yet: nobody has answered the request. Does anybody sign for %s? To find out: certplane explain podcertificaterequest %s -n %s",
		signer, pending.Name, namespace), false, time.Time{}
}
