package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/certplane/certplane/internal/policy/requests"
)

// answerGrace is the time that controllers may take for immediate actions.
const answerGrace = requests.ApprovalGrace

// outlook describes what a request without an answer waits for. The headline is derived
// from the checks, so that the two cannot differ.
type outlook struct {
	// checks are the deciding checks, in their order.
	checks []Check
	// waited is the time since the request started to wait for the next event.
	waited time.Duration
	// delay is the signer's report of what it waits for; empty without a report.
	delay string
	words
}

// words are the terms for one kind of request.
type words struct {
	// approval is true if such requests need approval.
	approval bool
	// state is the state reached, for example that the request is approved.
	state string
	// signer is the party that signs.
	signer string
	// waits introduces the signer's report of what it waits for.
	waits string
	// lacking is the party that lacks the permission that an approver requires.
	lacking string
	// silent is the party that has not answered.
	silent string
}

// nonBlocking are the checks whose failure does not prevent the signature: they determine
// whether a person is needed, and the party that must sign.
var nonBlocking = []string{"kubelet", "permission", "approver", "approval", "claim", "signer", "signing", "order", "challenge"}

// refusals are the checks whose failure makes the signer refuse a request.
var refusals = []string{"reference", "terms", "profile", "request"}

// find returns the check with a name. A check that does not exist is Open.
func (o outlook) find(name string) Check {
	for _, c := range o.checks {
		if c.Name == name {
			return c
		}
	}
	return Check{Name: name, Result: Open}
}

// obstacle describes the most important failed check that prevents the signature. refuse
// is the verb for the signer's refusal.
func (o outlook) obstacle(refuse string) (text string, found bool) {
	for _, name := range refusals {
		if c := o.find(name); c.Result == No {
			return fmt.Sprintf("its %s %s it: %s", o.signer, refuse, c.Message), true
		}
	}
	if c := o.find("issuer"); c.Result == No {
		return "its issuer cannot sign: " + c.Message, true
	}
	for _, c := range o.checks {
		if c.Result == No && !slices.Contains(nonBlocking, c.Name) {
			return c.Message, true
		}
	}
	return "", false
}

// unsigned returns the rest of a sentence about a request that only needs a signature.
func (o outlook) unsigned() string {
	obstacle, stopped := o.obstacle("will refuse")
	signer, signing := o.find("signer"), o.find("signing")
	switch {
	case stopped:
		return o.state + ", and " + obstacle
	case o.delay != "":
		return o.state + o.waits + o.delay
	case signer.Result == No:
		return o.state + ", and " + signer.Message
	case signing.Result == No:
		return o.state + ", and " + signing.Message
	case o.waited < answerGrace:
		return o.state + " and waits to be signed"
	default:
		return fmt.Sprintf("%s, and %s has not answered for %s", o.state, o.silent, duration.HumanDuration(o.waited))
	}
}

// undecided returns the rest of a sentence about a request that needs approval or denial.
func (o outlook) undecided() string {
	if c := o.find("approval"); c.Result == No {
		return "cannot be approved: " + c.Message
	}
	if obstacle, stopped := o.obstacle("would refuse"); stopped {
		return "waits for approval, and " + obstacle
	}
	text := o.approver()
	if c := o.find("signer"); c.Result == No {
		text += "; " + c.Message
	}
	return text
}

// approver describes the approval. It promises nothing: the permission of an approver
// does not show that the approver runs.
func (o outlook) approver() string {
	if people, waits := strings.CutPrefix(o.find("policies").Message, needPeople); waits {
		return "waits for people to approve it: " + people
	}
	permission := o.find("permission").Result
	switch {
	case permission == Yes && o.waited < answerGrace:
		return "waits for approval, which needs no person where an approver runs"
	case permission == Yes:
		return fmt.Sprintf("may be approved without a person, but for %s no approver has done so", duration.HumanDuration(o.waited))
	case permission == No:
		return fmt.Sprintf("waits for a person to approve it, because %s lacks a permission", o.lacking)
	case permission == Unknown:
		return "waits for approval; you may not check whether that needs a person"
	default:
		return "waits for a person to approve or deny it"
	}
}
