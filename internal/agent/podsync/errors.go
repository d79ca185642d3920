package podsync

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
	// errAway replaces all errors of an unreachable server. The status shows
	// the actual error once, and not for each pod.
	errAway = errors.New("the server does not answer")
)

// explain returns the text of an error for the status. waiting reports that the
// error is not a refusal and is expected to end without intervention.
func explain(err error) (text string, waiting bool) {
	if away := (*url.Error)(nil); errors.As(err, &away) {
		err = errAway
	}
	return err.Error(), errors.Is(err, errAway) || errors.Is(err, errUnregistered) || errors.Is(err, objects.ErrUnknown)
}

// signerPatience is the most time that a working signer takes.
const signerPatience = 10 * time.Second

// unanswered returns what a first certificate waits for, whether the wait is
// expected to end without intervention, and when to check again. A node is not
// permitted to know which signers exist; "certplane explain" shows it to a user
// who is permitted to.
func unanswered(record credential.Record, signer, namespace string, now time.Time) (text string, waiting bool, wake time.Time) {
	pending := record.Pending
	if pending == nil || pending.SentAt.IsZero() {
		return "not issued yet", true, time.Time{}
	}
	if patient := pending.SentAt.Add(signerPatience); now.Before(patient) {
		return "not issued yet", true, patient
	}
	return fmt.Sprintf("not issued yet: no signer has answered the request. To check whether a signer for %s exists: certplane explain podcertificaterequest %s -n %s",
		signer, pending.Name, namespace), false, time.Time{}
}
