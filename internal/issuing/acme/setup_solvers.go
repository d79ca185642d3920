package acme

import (
	"fmt"
	"strings"

	"github.com/certplane/certplane/internal/acme/solver/responder"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/policy/order"
)

// Answers are the ways in which this process answers challenges, by type.
type Answers struct{ HTTP01, TLSALPN01 Answer }

// Answer is how the challenges of one type are answered.
type Answer int

// How challenges are answered.
const (
	// Unanswered: the setting for listeners is empty.
	Unanswered Answer = iota
	// Listening: by listeners of the controllers' process.
	Listening
	// ByPods: by pods in the cluster.
	ByPods
)

// ReasonSolverFieldsIgnored is the reason of the Event about fields of solvers
// that have no meaning here.
const ReasonSolverFieldsIgnored = "SolverFieldsIgnored"

// listeners are the types of challenges that listeners answer, and their settings.
var listeners = []struct {
	kind, setting string
	of            func(Answers) Answer
}{
	{rfc8555.ChallengeHTTP01, "acme.http01.listen", func(a Answers) Answer { return a.HTTP01 }},
	{rfc8555.ChallengeTLSALPN01, "acme.tlsALPN01.listen", func(a Answers) Answer { return a.TLSALPN01 }},
}

// nothingAnswers returns the text of an issuer about a type of challenge and its setting.
func nothingAnswers(kind, setting string) string {
	return fmt.Sprintf("nothing answers %s challenges: the setting %s is empty", certmanager.ChallengeTypes[kind], setting)
}

// NothingAnswers returns the text in the message of a ready issuer about a type of
// challenge, given by its name in the protocol, if no listener answers such challenges;
// otherwise "".
func NothingAnswers(message, kind string) string {
	for _, l := range listeners {
		if text := nothingAnswers(l.kind, l.setting); l.kind == kind && strings.Contains(message, text) {
			return text
		}
	}
	return ""
}

// unanswered returns a text that is added to the message of an issuer that is
// ready, if the challenges of a solver are not answered here; otherwise "".
func (p *pass) unanswered() string {
	text := ""
	for _, l := range listeners {
		if i := p.solverOf(l.kind); l.of(p.answers) == Unanswered && i >= 0 {
			text += fmt.Sprintf("; its solver spec.acme.solvers[%d] cannot be used, because %s", i, nothingAnswers(l.kind, l.setting))
		}
	}
	return text
}

// solverOf returns the index of the first solver for a type of challenge, or -1.
func (p *pass) solverOf(kind string) int {
	for i := range p.spec.Solvers {
		if order.SolverType(&p.spec.Solvers[i]) == kind {
			return i
		}
	}
	return -1
}

// maxIgnored is the maximum number of fields that a warning names.
const maxIgnored = 20

// ignored returns the warning about fields of HTTP-01 solvers that describe objects of a
// cluster, if certplane does not create such objects.
func (p *pass) ignored() []issuing.Warning {
	if p.answers.HTTP01 == ByPods {
		return nil
	}
	var fields []string
	for i := range p.spec.Solvers {
		for _, field := range responder.IgnoredFields(p.spec.Solvers[i].HTTP01) {
			fields = append(fields, fmt.Sprintf("spec.acme.solvers[%d].%s", i, field))
		}
	}
	if len(fields) == 0 {
		return nil
	}
	text := strings.Join(fields[:min(len(fields), maxIgnored)], ", ")
	if more := len(fields) - maxIgnored; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return []issuing.Warning{{
		Reason:  ReasonSolverFieldsIgnored,
		Message: "HTTP-01 challenges are answered by listeners and not by objects of a cluster, so these fields have no effect: " + text,
	}}
}
