package requests

import (
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// Obstacle is the reason why an issuer cannot sign. The zero value means that it can.
type Obstacle struct {
	// Reason is a CamelCase word for programs.
	Reason string
	// Message is for people.
	Message string
}

// None reports whether nothing keeps the issuer from signing.
func (o Obstacle) None() bool { return o.Reason == "" }

// The reasons of obstacles.
const (
	ReasonNotFound    = "IssuerNotFound"
	ReasonTypeMissing = "IssuerTypeMissing"
	ReasonNotReady    = "IssuerNotReady"
)

// ObstacleOf returns why an issuer cannot sign. found is the issuer named by who, or nil
// if it does not exist; signs reports whether issuers of a type sign here.
func ObstacleOf(found cmv1.GenericIssuer, who certmanager.Signer, signs func(certmanager.IssuerType) bool) Obstacle {
	if found == nil {
		return obstacle(ReasonNotFound, "Referenced %q not found: there is no %s named %s%s", who.Kind, who.Kind, who.Name, inNamespace(who.Namespace))
	}
	t := certmanager.TypeOf(found.GetSpec())
	if t == certmanager.NoType {
		return obstacle(ReasonTypeMissing, "Missing issuer type: the %s %s has none", who.Kind, who.Name)
	}
	if signs(t) && certmanager.IssuerIs(found, cmv1.IssuerConditionReady) {
		return Obstacle{}
	}
	why := "it has not been checked yet"
	if ready := certmanager.IssuerCondition(found, cmv1.IssuerConditionReady); !signs(t) {
		why = fmt.Sprintf("issuers of type %s sign nothing here, as this build of certplane does not support them", t)
	} else if ready != nil {
		why = ready.Reason + ": " + ready.Message
	}
	return obstacle(ReasonNotReady, "Referenced issuer does not have a Ready status condition: %s", why)
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in the namespace " + namespace
}

func obstacle(reason, format string, args ...any) Obstacle {
	return Obstacle{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
