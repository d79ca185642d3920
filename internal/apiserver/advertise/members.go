package advertise

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"
)

// memberTTL is how long a server is still listed as a member after it died.
const memberTTL = 15 * time.Second

// Members are the servers that share an etcd. Each has a key under its own lease, so the
// clocks of the servers are never compared.
type Members struct {
	// Client reaches the etcd.
	Client *clientv3.Client
	// Prefix is the prefix of the keys.
	Prefix string
	// TTL is how long a server is still listed as a member after it died. Default:
	// 15 s.
	TTL time.Duration

	lease clientv3.LeaseID
}

// Join lists this server as a member for the time of a lease, and returns the
// endpoints of all members. It must be called again before the lease ends.
func (m *Members) Join(ctx context.Context, own netip.AddrPort) ([]netip.AddrPort, error) {
	if err := m.renew(ctx); err != nil {
		return nil, fmt.Errorf("renewing the lease of this server: %w", err)
	}
	members, err := m.list(ctx)
	if err != nil {
		return nil, err
	}
	if members[m.key()] != own {
		if _, err := m.Client.Put(ctx, m.key(), own.String(), clientv3.WithLease(m.lease)); err != nil {
			return nil, fmt.Errorf("storing where this server is: %w", err)
		}
		members[m.key()] = own
	}
	return endpoints(members), nil
}

// Leave removes this server from the members and returns the endpoints of the remaining
// ones.
func (m *Members) Leave(ctx context.Context) ([]netip.AddrPort, error) {
	if m.lease != clientv3.NoLease {
		if _, err := m.Client.Revoke(ctx, m.lease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return nil, fmt.Errorf("giving back the lease of this server: %w", err)
		}
		m.lease = clientv3.NoLease
	}
	members, err := m.list(ctx)
	return endpoints(members), err
}

// renew gets a lease if the server has none or its lease has ended.
func (m *Members) renew(ctx context.Context) error {
	if m.lease != clientv3.NoLease {
		_, err := m.Client.KeepAliveOnce(ctx, m.lease)
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return err
		}
	}
	ttl := m.TTL
	if ttl == 0 {
		ttl = memberTTL
	}
	granted, err := m.Client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return err
	}
	m.lease = granted.ID
	return nil
}

// key returns this server's key, which is its own as long as it has its lease.
// Two servers may well be reached at the same endpoint, behind a load balancer.
func (m *Members) key() string { return m.Prefix + strconv.FormatInt(int64(m.lease), 16) }

func (m *Members) list(ctx context.Context) (map[string]netip.AddrPort, error) {
	answer, err := m.Client.Get(ctx, m.Prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("reading where the servers are: %w", err)
	}
	members := map[string]netip.AddrPort{}
	for _, kv := range answer.Kvs {
		endpoint, err := netip.ParseAddrPort(string(kv.Value))
		if err != nil {
			klog.FromContext(ctx).Error(err, "A server stored an address that is none", "key", string(kv.Key))
			continue
		}
		members[string(kv.Key)] = endpoint
	}
	return members, nil
}

func endpoints(members map[string]netip.AddrPort) []netip.AddrPort {
	var all []netip.AddrPort
	for _, endpoint := range members {
		all = append(all, endpoint)
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all)
}
