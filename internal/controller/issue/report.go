package issue

import (
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/issuance/secret"
	"github.com/certplane/certplane/internal/process/eventtext"
)

// actor is the name of a writer: its field manager, and the component of its
// Events.
type actor string

// The actors. Their names are known to the API's users. If a name changed, the
// fields that the old name has written would stay behind.
const (
	trigger         actor = "cert-manager-certificates-trigger"
	keyManager      actor = "cert-manager-certificates-key-manager"
	requestManager  actor = "cert-manager-certificates-request-manager"
	issuing         actor = secret.FieldManager
	readiness       actor = "cert-manager-certificates-readiness"
	revisionManager actor = "cert-manager-certificates-revision-manager"
)

// recorders opens the recorders of all actors that record Events.
func recorders(open func(string) events.EventRecorder) map[actor]events.EventRecorder {
	if open == nil {
		return nil
	}
	all := map[actor]events.EventRecorder{}
	for _, who := range []actor{trigger, keyManager, requestManager, issuing, readiness} {
		all[who] = open(string(who))
	}
	return all
}

// actions are the actions in the actors' Events.
var actions = map[actor]string{
	trigger: "Trigger", keyManager: "ManageKey", requestManager: "Request", issuing: "Issue", readiness: "CheckReadiness",
}

// notice is one Event about the Certificate of a pass.
type notice struct {
	who  actor
	kind string // corev1.EventTypeNormal or EventTypeWarning
	what issuance.Finding
}

// tellNormal records an Event once the status of this pass has been written.
func (t *pass) tellNormal(who actor, what issuance.Finding) {
	t.news = append(t.news, notice{who, corev1.EventTypeNormal, what})
}

// tellWarning is tellNormal for a warning.
func (t *pass) tellWarning(who actor, what issuance.Finding) {
	t.news = append(t.news, notice{who, corev1.EventTypeWarning, what})
}

// opens adds to the Event about the begin of an issuance: why it begins, with which key and
// request. It is one Event, because each costs the API as much as the request itself, and
// only people read them: what is a promise is in the conditions.
func (t *pass) opens(who actor, what issuance.Finding) {
	t.opening = append(t.opening, notice{who, corev1.EventTypeNormal, what})
}

// recordNews records the Events of the pass.
func (t *pass) recordNews() {
	for _, e := range slices.Concat(opening(t.opening), t.news) {
		t.event(e.who, t.Certificate, e.kind, e.what)
	}
	t.opening, t.news = nil, nil
}

// opening merges the notices from the start of an issuance into one Event: with the reason
// Issuing if the controller started the issuance, otherwise with the reason of the last
// notice.
func opening(all []notice) []notice {
	if len(all) == 0 {
		return nil
	}
	one := all[len(all)-1]
	if all[0].who == trigger {
		one = all[0]
	}
	var texts []string
	for _, e := range all {
		texts = append(texts, e.what.Message)
	}
	one.what.Message = strings.Join(texts, "; ")
	return []notice{one}
}

func (c *controller) event(who actor, crt *cmv1.Certificate, kind string, what issuance.Finding) {
	if recorder := c.recorders[who]; recorder != nil && !what.None() {
		recorder.Eventf(crt, nil, kind, what.Reason, actions[who], "%s", eventtext.Fit(what.Message))
	}
}
