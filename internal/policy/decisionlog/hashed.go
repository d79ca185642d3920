package decisionlog

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// Hashed returns the log line for a decision without names: the names of the request, its
// requester and its approvers are replaced by digests, and other texts that quote the
// request are omitted. The decision cannot be repeated from such a line.
func Hashed(d *v1alpha1.PolicyDecision) *v1alpha1.LoggedDecision {
	line := &v1alpha1.LoggedDecision{PolicyDecision: *d.DeepCopy()}
	line.Request.Namespace, line.Request.Name = digest(d.Request.Namespace), digest(d.Request.Name)
	line.Request.Requester, line.Message, line.Facts = digest(d.Request.Requester), "", nil
	if line.Renews != nil {
		line.Renews.Namespace, line.Renews.Name = digest(line.Renews.Namespace), digest(line.Renews.Name)
	}
	hashViolations(line.Violations)
	for i := range line.Shadow {
		line.Shadow[i].Message = ""
		hashViolations(line.Shadow[i].Violations)
	}
	for i := range line.Considered {
		line.Considered[i].Because = ""
	}
	for i := range line.Open {
		line.Open[i].Fact = digest(line.Open[i].Fact)
	}
	if line.People != nil {
		for i := range line.People.Votes {
			vote := &line.People.Votes[i]
			vote.User, vote.Because, vote.Override = digest(vote.User), "", digest(vote.Override)
			vote.CarriedFrom = digest(vote.CarriedFrom)
		}
		for i := range line.People.Requirements {
			overridden := &line.People.Requirements[i].OverriddenBy
			*overridden = digest(*overridden)
		}
	}
	return line
}

func hashViolations(violations []v1alpha1.PolicyViolation) {
	for i := range violations {
		v := &violations[i]
		v.Value, v.Message, v.WouldPass = digest(v.Value), "", nil
	}
}

// digest returns the digest of a name. It does not protect names that can be guessed: a
// guess can be compared.
func digest(name string) string {
	if name == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(name))
	return "sha256:" + hex.EncodeToString(sum[:])
}
