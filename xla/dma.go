package xla

// PinHost pins host memory outside the collector's heap, so that devices copy from it by
// themselves, and returns what ends that. FromHost of a part of it is then a transfer from what JAX
// calls pinned_host to the device's default memory: it names no PJRT_Memory, and tells the plugin
// that the part does not change until the transfer has ended. Memory that is used again and again is pinned once,
// because pinning takes longer than copying. ok is false where nothing is pinned: on a CPU,
// which uses the memory in place, and where the plugin cannot. Error: ErrPlugin, with the
// plugin's own words. No device has run this yet.
func (c *Client) PinHost(data []byte) (unpin func(), ok bool, err error) {
	if c.platform == "cpu" || len(data) == 0 || !c.plugin.api.HasDMA() {
		return nil, false, nil
	}
	if err := c.enterPlugin(); err != nil {
		return nil, false, err
	}
	defer c.leavePlugin()
	if err := c.raw.DmaMap(data); err != nil {
		return nil, false, pluginError(ErrPlugin, "pin host memory", err)
	}
	return func() {
		if c.enterPlugin() != nil {
			return // the client is closed, and with it what it pinned
		}
		defer c.leavePlugin()
		_ = c.raw.DmaUnmap(data)
	}, true, nil
}
