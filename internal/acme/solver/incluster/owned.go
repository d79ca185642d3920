package incluster

import (
	"context"
	"errors"
	"fmt"
	"hash/adler32"
	"maps"
	"net/netip"
	"strconv"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namePrefix begins the names of all objects of a challenge.
const namePrefix = "cm-acme-http-solver-"

// identity returns the labels that select the objects of a challenge.
func identity(ch *acmev1.Challenge) map[string]string {
	return map[string]string{
		acmev1.DomainLabelKey:               hash(ch.Spec.DNSName),
		acmev1.TokenLabelKey:                hash(ch.Spec.Token),
		acmev1.SolverIdentificationLabelKey: "true",
	}
}

func hash(s string) string { return strconv.FormatUint(uint64(adler32.Checksum([]byte(s))), 10) }

// ownedBy returns the metadata of an object of a challenge. The labels of its identity
// override labels.
func ownedBy(ch *acmev1.Challenge, labels ...map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		GenerateName:    namePrefix,
		Namespace:       ch.Namespace,
		Labels:          overlay(append(labels, identity(ch))...),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ch, acmev1.SchemeGroupVersion.WithKind(acmev1.ChallengeKind))},
	}
}

// overlay returns the entries of all maps. Of equal keys the last one counts.
func overlay[V any](layers ...map[string]V) map[string]V {
	sum := map[string]V{}
	for _, layer := range layers {
		maps.Copy(sum, layer)
	}
	return sum
}

// owned reads the objects of a challenge, of one kind. Those that are being
// deleted are not among them.
func (s *Solver) owned(ctx context.Context, ch *acmev1.Challenge, of kind) ([]client.Object, error) {
	list := of.list()
	if err := s.client.List(ctx, list, client.InNamespace(ch.Namespace), client.MatchingLabels(identity(ch))); err != nil {
		return nil, fmt.Errorf("listing the solver's %s: %w", of.plural, err)
	}
	var owned []client.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if ok && metav1.IsControlledBy(object, ch) && object.GetDeletionTimestamp().IsZero() {
			owned = append(owned, object)
		}
		return nil
	})
	return owned, err
}

// only returns the one object of a challenge among the found ones, or nil if there is
// none. If there are several, it deletes all of them, as any could be wrong.
func (s *Solver) only(ctx context.Context, of kind, found []client.Object) (client.Object, error) {
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	if err := s.delete(ctx, of, found); err != nil {
		return nil, err
	}
	return nil, errors.New(of.several)
}

// ensureOne returns the object of a challenge, and creates the wanted one if it does not
// exist.
func (s *Solver) ensureOne(ctx context.Context, ch *acmev1.Challenge, of kind, wanted client.Object) (client.Object, error) {
	found, err := s.owned(ctx, ch, of)
	if err != nil {
		return nil, err
	}
	existing, err := s.only(ctx, of, found)
	if existing != nil || err != nil {
		return existing, err
	}
	return s.create(ctx, of, wanted)
}

// create makes an object. What it shares with the challenge is copied before, as
// the client writes the answer into the object.
func (s *Solver) create(ctx context.Context, of kind, wanted client.Object) (client.Object, error) {
	object := wanted.DeepCopyObject().(client.Object)
	if err := s.client.Create(ctx, object); err != nil {
		return nil, fmt.Errorf("creating the solver's %s: %w", of.name, err)
	}
	return object, nil
}

// deleteOwned deletes all objects of a challenge, of one kind.
func (s *Solver) deleteOwned(ctx context.Context, ch *acmev1.Challenge, of kind) error {
	found, err := s.owned(ctx, ch, of)
	if err != nil {
		return err
	}
	return s.delete(ctx, of, found)
}

func (s *Solver) delete(ctx context.Context, of kind, objects []client.Object) error {
	var errs []error
	for _, object := range objects {
		uid := object.GetUID()
		err := s.client.Delete(ctx, object, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting the solver's %s %s: %w", of.name, object.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

// hostOf returns the host for a challenge's name: empty, which is any, for IP
// addresses. The API takes only lower case there.
func hostOf(ch *acmev1.Challenge) string {
	if isIP(ch.Spec.DNSName) {
		return ""
	}
	return strings.ToLower(ch.Spec.DNSName)
}

func isIP(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

// pathOf returns the path of a challenge's answer.
func pathOf(ch *acmev1.Challenge) string { return "/.well-known/acme-challenge/" + ch.Spec.Token }
