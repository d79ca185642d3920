package podsync

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/agent/credential"
	"github.com/certplane/certplane/internal/agent/crl"
	"github.com/certplane/certplane/internal/agent/manifests"
	"github.com/certplane/certplane/internal/agent/projection"
	"github.com/certplane/certplane/internal/agent/status"
	"github.com/certplane/certplane/internal/agent/volume"
	"github.com/certplane/certplane/internal/api/agenthost"
	"github.com/certplane/certplane/internal/pki"
)

// listsKind is the kind of files with revocation lists in the status.
const listsKind = "revocationLists"

// revocationLists returns a file with revocation lists. If the lists cannot be used, the file
// stays as it is.
func (v *podSync) revocationLists(ctx context.Context, s *volumeState, spec *corev1.ProjectedVolumeSource, want manifests.RevocationLists, dir string) sourceResult {
	present, err := volume.Load(dir)
	if err != nil {
		return newResult(listsKind, want.Signer, nil, err)
	}
	now := v.k.Clock.Now()
	file, err := v.readLists(ctx, s, spec, want)
	former := crl.File{}
	if last, there := present[want.Path]; there && string(last.Data) != string(file.Data) {
		former = crl.Parse(last.Data)
	}
	if err == nil {
		err = file.Follows(former)
	}
	var parts []projection.Part
	if err == nil {
		parts = []projection.Part{{Path: want.Path, Data: file.Data}}
	}
	g := newResult(listsKind, want.Signer, parts, err)
	if g.told.Path = want.Path; err != nil {
		file = former
		_, g.told.Ready = present[want.Path]
	}
	if g.told.Ready {
		g.told.Files = []string{want.Path}
	}
	for _, list := range file.Lists {
		g.told.Lists = append(g.told.Lists, status.List{CA: list.Issuer.String(), Number: list.Number.String(), ThisUpdate: list.ThisUpdate, NextUpdate: list.NextUpdate})
	}
	if first := file.First(); first != nil {
		g.told.NotAfter = &first.NextUpdate
	}
	if overdue := file.Overdue(now); overdue != "" {
		g.told.Waiting = false
		if g.told.Error != "" {
			overdue += ": " + g.told.Error
		}
		g.told.Error = overdue
	}
	return g
}

// listsOf returns the files with revocation lists in the pod's status in the API.
func listsOf(told status.Pod) []agenthost.RevocationLists {
	var all []agenthost.RevocationLists
	for _, v := range told.Volumes {
		for _, s := range v.Sources {
			if s.Kind != listsKind {
				continue
			}
			file := agenthost.RevocationLists{Volume: v.Name, Signer: s.Name, Path: s.Path, Error: s.Error}
			for n, list := range s.Lists {
				file.Numbers = append(file.Numbers, list.Number)
				if n == 0 || list.ThisUpdate.Before(file.ThisUpdate) {
					file.ThisUpdate = list.ThisUpdate
				}
			}
			if s.NotAfter != nil {
				file.NextUpdate = *s.NotAfter
			}
			all = append(all, file)
		}
	}
	return all
}

// readLists returns a file of the lists that the server has.
func (v *podSync) readLists(ctx context.Context, s *volumeState, spec *corev1.ProjectedVolumeSource, want manifests.RevocationLists) (crl.File, error) {
	roots, err := v.k.bundles.Get(ctx, &corev1.ClusterTrustBundleProjection{SignerName: ptr.To(want.Signer), LabelSelector: &metav1.LabelSelector{}})
	if err != nil {
		return crl.File{}, err
	}
	var own []*x509.Certificate
	for _, source := range spec.Sources {
		if source.PodCertificate == nil || source.PodCertificate.SignerName != want.Signer {
			continue
		}
		if current := s.Certificates[certificateKey(source.PodCertificate)].Current; current != nil {
			cert, err := pki.ParseFirst(current.Chain)
			if err != nil {
				return crl.File{}, err
			}
			own = append(own, cert)
		}
	}
	return v.k.lists.Get(ctx, want, roots, own, v.k.Clock.Now())
}

// revoked returns why the present certificate of a record must not be used; nil if it may. The
// record that it returns asks for another certificate if the reason of the revocation does.
func (v *podSync) revoked(ctx context.Context, record credential.Record, signer string) (credential.Record, error) {
	if record.Current == nil || v.pod == nil {
		return record, nil
	}
	cert, err := pki.ParseFirst(record.Current.Chain)
	if err != nil {
		return record, nil // the signer has sent it: programs may be able to use it
	}
	now := v.k.Clock.Now()
	entry, err := v.k.lists.Revoked(ctx, signer, cert, now)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot find out whether a certificate is revoked", "pod", v.manifest.Key(), "signer", signer, "err", err)
	}
	if entry == nil {
		return record, nil
	}
	reason := pki.Reason(entry.ReasonCode)
	if reason.Replaces() {
		record = record.Revoked(now)
	}
	return record, fmt.Errorf("the certificate with the serial number %x was revoked at %s: %s", cert.SerialNumber, entry.RevocationTime.Format(time.RFC3339), reason)
}
