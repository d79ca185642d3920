// Package crash kills servers at any moment and checks what is left.
//
// TestChaos does it again and again, with clocks that jump and disks that are
// full; "make chaos KILLS=1000" does it for long. Its history reads every
// revision of every request from etcd, so that nothing that a server has stored
// between two reads is missed. TestKillDuringOrder kills at each step of ACME
// orders; "make chaos-acme KILLS=100" at steps that it draws.
//
// TestKillAtWritesOfOrders is about clients of the ACME server: it kills one of two
// servers at each write of an order; "make chaos-acme-server KILLS=100" at writes that
// it draws.
//
// TestKillAtWritesOfRevocations does the same at the writes of a selection of
// certificates and of the list that follows.
//
// TestOutageOfStore takes the store away from two servers in the middle of orders, for as
// long as a request waits for it, or longer by -outage.
package crash
