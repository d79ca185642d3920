package certmetrics

import (
	"strconv"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/policy/challenge"
)

// challengeStates are the states that a Challenge can have. Each has a series,
// and one of these series is 1.
var challengeStates = []acmev1.State{
	acmev1.Ready, acmev1.Valid, acmev1.Errored, acmev1.Expired, acmev1.Invalid, acmev1.Processing, acmev1.Unknown, acmev1.Pending,
}

func descChallenge(desc func(name, help string, labels ...string) *prometheus.Desc) *prometheus.Desc {
	return desc("certificate_challenge_status",
		"State of the Challenge: 1 for its current state. The reason is the kind of its obstacle, not the text.",
		"status", "domain", "reason", "processing", "name", "namespace", "type")
}

func (o *objects) collectChallenge(ch *acmev1.Challenge, series chan<- prometheus.Metric) {
	for _, state := range challengeStates {
		series <- gauge(o.challenge, is(ch.Status.State == state), string(state), ch.Spec.DNSName, string(challenge.ClassOf(ch)),
			strconv.FormatBool(ch.Status.Processing), ch.Name, ch.Namespace, string(ch.Spec.Type))
	}
}
