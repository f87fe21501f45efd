//! A simulated disk keeps every promise that the runtime asks of a device.

use staddle_base::Seed;
use staddle_runtime::io::device::conformance;
use staddle_sim::SimDisk;

#[test]
fn a_simulated_disk_conforms() {
    conformance::check(&SimDisk::new(Seed(1))).unwrap();
    conformance::check(&SimDisk::without_locks(Seed(1))).unwrap();
    conformance::check(&SimDisk::with_capacity(Seed(1), 256 << 20)).unwrap();
}
