package controllermanager

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/controller/record"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
)

// NewRecorder returns the recorder of a cluster, which Add adds; nil if it is not chosen. Its
// events about missing space are about a Deployment in the namespace of the accounts.
func (c Config) NewRecorder(p Process, settings record.Settings, deployment string) (*record.Recorder, error) {
	if !c.Chooses(rights.Record) {
		return nil, nil
	}
	a, err := p.Actor(rights.Record.Account)
	if err != nil {
		return nil, err
	}
	user := func(account string) string { return request.ServiceAccount(a.Namespace, account).Username }
	return record.New(record.Config{
		Client: a.Client, Namespace: a.Namespace, Requests: a.Manager.GetCache(), Versions: a.Versions, Settings: settings, Policies: c.Policies,
		PolicyApprover: user(rights.ApproveByPolicy.Account), CertificateUser: user(rights.IssueCertificates.Account),
		Full:   &corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: a.Namespace, Name: deployment},
		Events: a.Events, Metrics: a.Metrics, Now: time.Now,
	})
}

// addRecorder adds the part of the recorder that needs the lease.
func addRecorder(a Actor, cfg Config) error {
	if err := a.Manager.Add(cfg.Recorder); err != nil {
		return fmt.Errorf("adding the recorder of certificates: %w", err)
	}
	return nil
}

// records returns what records the certificates of a controller's requests; nil if nothing does.
func (c Config) records() *outcome.Records {
	if c.Recorder == nil {
		return nil
	}
	return outcome.NewRecords(c.Recorder.Record)
}
