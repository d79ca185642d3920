package issue

import (
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/certplane/certplane/internal/note"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/issuance/secret"
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

func (c *controller) eventNormal(who actor, crt *cmv1.Certificate, what issuance.Finding) {
	c.event(who, crt, corev1.EventTypeNormal, what)
}

func (c *controller) eventWarning(who actor, crt *cmv1.Certificate, what issuance.Finding) {
	c.event(who, crt, corev1.EventTypeWarning, what)
}

func (c *controller) event(who actor, crt *cmv1.Certificate, kind string, what issuance.Finding) {
	if recorder := c.recorders[who]; recorder != nil && !what.None() {
		recorder.Eventf(crt, nil, kind, what.Reason, actions[who], "%s", note.Fit(what.Message))
	}
}
