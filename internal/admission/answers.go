package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// Plugins are all plugins that are on, joined into one.
type Plugins struct {
	all
	answers    *answers
	configured *configured
}

type all interface {
	admission.MutationInterface
	admission.ValidationInterface
}

// Alone returns the checks of this program, without those that users have configured, for
// updates of a subresource of requests that are being created, by accounts of controllers
// in this process. It returns nil if a policy or a webhook of users may be about such
// updates: then all plugins are asked.
func (p *Plugins) Alone(resource schema.GroupResource, subresource string) admission.MutationInterface {
	if p.configured.mayConcern(resource, subresource) {
		return nil
	}
	return p.answers
}

// answers are the plugins of this program that check approvals and answers of requests,
// nil for those that are off. The others check creations, other resources or other users,
// or the namespace, which the creation has checked in the same call.
type answers struct {
	approval, signing admission.ValidationInterface
	manager           *certManager
	policies          *certificatePolicy
}

// add notes a plugin that is on.
func (n *answers) add(made admission.Interface) {
	switch made := made.(type) {
	case *certManager:
		n.manager = made
	case *certificatePolicy:
		n.policies = made
	case signerCheck:
		if made.verb == "approve" {
			n.approval = made
		} else {
			n.signing = made
		}
	}
}

// Handles implements admission.Interface.
func (*answers) Handles(operation admission.Operation) bool { return operation == admission.Update }

// Admit checks an update as the plugins do that are on, each question once.
func (n *answers) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	for _, rights := range []admission.ValidationInterface{n.approval, n.signing} {
		if rights == nil {
			continue
		}
		if err := rights.Validate(ctx, a, o); err != nil {
			return err
		}
	}
	if n.policies != nil {
		if err := n.policies.answer(ctx, a, n.approval != nil); err != nil {
			return err
		}
	}
	if n.manager != nil {
		return n.manager.Validate(ctx, a, o) // what it changes concerns creations
	}
	return nil
}
